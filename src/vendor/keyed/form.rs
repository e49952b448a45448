//! The form of a [`KeyedConfig`](super::KeyedConfig)'s parts in the vendors file.

use serde::{Deserialize, Serialize};

/// `{ name = "X-Error", value = "in_use" }`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    name: String,
    value: String,
}

/// `{ pointer = "/error/code", value = "in_use" }`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Json {
    pointer: String,
    value: String,
}

/// Form of a key in a header.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum KeyForm {
    Raw,
    Quoted,
}

pub(super) mod header {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::Header;

    pub(in crate::vendor) fn serialize<S: Serializer>(
        header: &Option<(String, String)>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let header = header.clone().map(|(name, value)| Header { name, value });
        header.serialize(serializer)
    }

    pub(in crate::vendor) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<(String, String)>, D::Error> {
        let header = Option::<Header>::deserialize(deserializer)?;
        Ok(header.map(|Header { name, value }| (name, value)))
    }
}

pub(super) mod json {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::Json;

    pub(in crate::vendor) fn serialize<S: Serializer>(
        json: &Option<(String, String)>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let json = json.clone().map(|(pointer, value)| Json { pointer, value });
        json.serialize(serializer)
    }

    pub(in crate::vendor) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<(String, String)>, D::Error> {
        let json = Option::<Json>::deserialize(deserializer)?;
        Ok(json.map(|Json { pointer, value }| (pointer, value)))
    }
}

pub(super) mod key_form {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use super::KeyForm;

    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde's signature")]
    pub(in crate::vendor) fn serialize<S: Serializer>(
        quoted: &bool,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let form = if *quoted { KeyForm::Quoted } else { KeyForm::Raw };
        form.serialize(serializer)
    }

    pub(in crate::vendor) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<bool, D::Error> {
        Ok(matches!(KeyForm::deserialize(deserializer)?, KeyForm::Quoted))
    }
}
