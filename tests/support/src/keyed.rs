//! The vendors of a schedule that are only data.

use std::sync::LazyLock;

use steadfast::vendor::KeyedConfig;

/// One that replays its keys for a day.
pub static KEYED: LazyLock<KeyedConfig> = LazyLock::new(|| {
    config(
        r#"
        name = "keyed"
        base_url = "https://keyed.test"
        auth = { header = "Authorization", prefix = "Bearer " }
        key = { header = "Idempotency-Key" }
        window = "24h"
        stores_failures = true
        replay = { header = { name = "Idempotent-Replayed", value = "true" } }
        "#,
    )
});

/// One without keys and without a lookup.
pub static BARE: LazyLock<KeyedConfig> = LazyLock::new(|| {
    config(
        r#"
        name = "bare"
        base_url = "https://bare.test"
        auth = { header = "Authorization", prefix = "Bearer " }
        "#,
    )
});

fn config(text: &str) -> KeyedConfig {
    KeyedConfig::from_toml(text).expect("a configuration")
}
