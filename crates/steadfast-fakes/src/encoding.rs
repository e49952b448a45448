//! Signatures and Basic credentials, small enough that no dependency is worth it in a test kit.

use sha2::{Digest, Sha256};

/// HMAC with SHA-256 (RFC 2104).
pub(super) fn hmac_sha256(key: &[u8], message: &[u8]) -> [u8; 32] {
    let mut block = [0; 64];
    if key.len() > block.len() {
        block[..32].copy_from_slice(&Sha256::digest(key));
    } else {
        block[..key.len()].copy_from_slice(key);
    }
    let padded = |pad: u8| block.map(|byte| byte ^ pad);
    let inner = Sha256::new().chain_update(padded(0x36)).chain_update(message).finalize();
    Sha256::new().chain_update(padded(0x5c)).chain_update(inner).finalize().into()
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// RFC 4648, section 4, with its padding.
pub(super) fn base64(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let whole = chunk
            .iter()
            .enumerate()
            .fold(0u32, |whole, (at, byte)| whole | u32::from(*byte) << (16 - 8 * at));
        for at in 0..4 {
            let digit = usize::try_from(whole >> (18 - 6 * at) & 63).unwrap_or(0);
            text.push(if at > chunk.len() { '=' } else { char::from(ALPHABET[digit]) });
        }
    }
    text
}

/// `None` if it is not base64.
pub(super) fn from_base64(text: &str) -> Option<Vec<u8>> {
    let (mut bytes, mut whole, mut bits) = (Vec::new(), 0u32, 0);
    for byte in text.trim_end_matches('=').bytes() {
        let digit = ALPHABET.iter().position(|known| *known == byte)?;
        whole = whole << 6 | u32::try_from(digit).ok()?;
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            bytes.push(u8::try_from(whole >> bits & 255).ok()?);
        }
    }
    Some(bytes)
}

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hmac_is_that_of_rfc_4231() {
        for (key, message, mac) in [
            (
                &[0x0b; 20][..],
                &b"Hi There"[..],
                "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7",
            ),
            (
                b"Jefe",
                b"what do ya want for nothing?",
                "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843",
            ),
            (
                &[0xaa; 131],
                b"Test Using Larger Than Block-Size Key - Hash Key First",
                "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
            ),
        ] {
            assert_eq!(hex(&hmac_sha256(key, message)), mac);
        }
    }

    #[test]
    fn base64_is_that_of_rfc_4648_and_read_again() {
        for (plain, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foob", "Zm9vYg=="),
            ("fooba", "Zm9vYmE="),
        ] {
            assert_eq!(base64(plain.as_bytes()), text);
            assert_eq!(from_base64(text).as_deref(), Some(plain.as_bytes()));
        }
        assert_eq!(from_base64("a b"), None);
    }
}
