//! TLS on a connection, with the same rustls and provider as calls to vendors.

use std::fs;
use std::future::Future;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::Socket;
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use tokio_rustls::rustls::crypto::{
    CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature,
};
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use tokio_rustls::rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};

use steadfast_core::store::{StoreError, StoreErrorKind};

use super::address::{Mode, Security};

/// Factory of TLS handshakes. Cheap to clone.
#[derive(Clone)]
pub(super) struct Connector(Arc<ClientConfig>);

/// Returns a connector for `security`.
///
/// # Errors
///
/// `Invalid` for files that cannot be read.
pub(super) fn connector(security: &Security) -> Result<Connector, StoreError> {
    let provider = CryptoProvider::get_default().cloned();
    let provider = provider.unwrap_or_else(|| Arc::new(aws_lc_rs::default_provider()));
    let verifier = verifier(security, &provider)?;
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| invalid("TLS for Postgres cannot be set up", error))?
        .dangerous()
        .with_custom_certificate_verifier(verifier);
    let mut config = match &security.identity {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let chain = certificates(certificate, "sslcert")?;
            let key = PrivateKeyDer::from_pem_file(key)
                .map_err(|error| invalid(format!("`sslkey` {} cannot be read", key.display()), error))?;
            builder
                .with_client_auth_cert(chain, key)
                .map_err(|error| invalid("`sslcert` and `sslkey` do not fit", error))?
        }
    };
    // Postgres 17 requires it of a connection that begins with TLS; older ones ignore it.
    config.alpn_protocols = vec![b"postgresql".to_vec()];
    Ok(Connector(Arc::new(config)))
}

fn verifier(
    security: &Security,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ServerCertVerifier>, StoreError> {
    let by = |checks| -> Arc<dyn ServerCertVerifier> {
        Arc::new(Lenient { checks, provider: Arc::clone(provider) })
    };
    let roots = || -> Result<Arc<dyn ServerCertVerifier>, StoreError> {
        let Some(path) = &security.roots else {
            let platform = rustls_platform_verifier::Verifier::new(Arc::clone(provider))
                .map_err(|error| invalid("the platform's trusted certificates cannot be read", error))?;
            return Ok(Arc::new(platform));
        };
        let mut roots = RootCertStore::empty();
        for root in certificates(path, "sslrootcert")? {
            roots.add(root).map_err(|error| unreadable(path, "sslrootcert", error))?;
        }
        let verifier = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider))
            .build()
            .map_err(|error| unreadable(path, "sslrootcert", error))?;
        Ok(verifier)
    };
    Ok(match security.mode {
        Mode::Disable | Mode::Prefer | Mode::Require => by(None),
        Mode::VerifyCa => by(Some(roots()?)),
        Mode::VerifyFull => roots()?,
    })
}

/// A verifier that checks less than the usual: no certificate, or not that it is for this host. That the server
/// has the certificate's key is always checked.
#[derive(Debug)]
struct Lenient {
    checks: Option<Arc<dyn ServerCertVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Lenient {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(checks) = &self.checks else { return Ok(ServerCertVerified::assertion()) };
        match checks.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            // The name is checked last, once the chain is known to be good.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

fn certificates(path: &Path, option: &str) -> Result<Vec<CertificateDer<'static>>, StoreError> {
    let pem = fs::read(path).map_err(|error| unreadable(path, option, error))?;
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&pem).collect();
    let found = found.map_err(|error| unreadable(path, option, error))?;
    if found.is_empty() {
        let problem = format!("`{option}` {} has no certificate; it must be a file of PEM", path.display());
        return Err(StoreError::new(problem).of_kind(StoreErrorKind::Invalid));
    }
    Ok(found)
}

fn unreadable(
    path: &Path,
    option: &str,
    error: impl std::error::Error + Send + Sync + 'static,
) -> StoreError {
    invalid(format!("`{option}` {} cannot be read", path.display()), error)
}

fn invalid(problem: impl Into<String>, error: impl std::error::Error + Send + Sync + 'static) -> StoreError {
    StoreError::with_source(problem, error).of_kind(StoreErrorKind::Invalid)
}

impl MakeTlsConnect<Socket> for Connector {
    type Stream = Stream;
    type TlsConnect = Handshake;
    type Error = io::Error;

    fn make_tls_connect(&mut self, host: &str) -> Result<Handshake, io::Error> {
        // A socket has no name, and is not asked for TLS.
        let name = ServerName::try_from(host.to_owned()).ok();
        Ok(Handshake { config: Arc::clone(&self.0), name })
    }
}

/// A pending TLS handshake.
pub(super) struct Handshake {
    config: Arc<ClientConfig>,
    name: Option<ServerName<'static>>,
}

impl TlsConnect<Socket> for Handshake {
    type Stream = Stream;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Stream>> + Send>>;

    fn connect(self, socket: Socket) -> Self::Future {
        Box::pin(async move {
            let no_name = || {
                io::Error::new(io::ErrorKind::InvalidInput, "the host is no name that a certificate can have")
            };
            let name = self.name.ok_or_else(no_name)?;
            let stream = TlsConnector::from(self.config).connect(name, socket).await?;
            Ok(Stream(stream))
        })
    }
}

/// A connection under TLS.
pub(super) struct Stream(tokio_rustls::client::TlsStream<Socket>);

impl TlsStream for Stream {
    /// Returns none: the hash in it depends on how the certificate was signed, and only a certificate that is
    /// not checked gains by it. The driver refuses a URL that demands it (`channel_binding=require`).
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
