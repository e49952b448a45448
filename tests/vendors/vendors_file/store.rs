//! The store that the file names: who opens it and when, who shares it, and what is said where it does not open.

use std::error::Error as _;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use steadfast::clock::Clock;
use steadfast::dead_letter::DeadLetters;
use steadfast::store::{Memory, Sqlite, Store, StoreError, StoreErrorKind};
use steadfast::testkit::{ScriptedTransport, TestClock};
use steadfast::transport::SendErrorKind;
use steadfast::{Client, Error, Obtained, Reply, Vendors};
use tempfile::TempDir;

use crate::vendors_file::load;

const VENDORS: &str =
    "[vendors.stripe]\nsecret_env = 'STRIPE'\n[vendors.postmark]\nsecret_env = 'POSTMARK'\n";

/// A directory with a vendors file that names `store`.
struct Place(TempDir);

impl Place {
    fn with(settings: &str) -> Place {
        let place = Place(TempDir::new().expect("a directory"));
        std::fs::write(place.path("vendors.toml"), format!("{settings}\n{VENDORS}")).expect("writes");
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn vendors(&self) -> Vendors {
        let vendors = Vendors::from_file(self.path("vendors.toml")).unwrap_or_else(|error| panic!("{error}"));
        vendors.with_secrets(|variable| Some(format!("secret_of_{variable}")))
    }

    /// All that is in the directory.
    fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.0.path()).expect("reads");
        let name = |entry: std::io::Result<std::fs::DirEntry>| entry.expect("reads").file_name();
        let mut names: Vec<String> =
            entries.map(name).map(|name| name.into_string().expect("text")).collect();
        names.sort();
        names
    }
}

fn client(vendors: &Vendors, name: &str, network: &ScriptedTransport) -> Client {
    let builder = vendors.builder(name).expect("a vendor").transport(network.clone());
    builder.clock(TestClock::auto()).build().unwrap_or_else(|error| panic!("{error}: {:?}", error.source()))
}

async fn charge(stripe: &Client, key: &str) -> Result<Reply, Error> {
    stripe.post("/v1/payment_intents").key(key).form(&[("amount", "1000")]).send().await
}

fn paid() -> ScriptedTransport {
    ScriptedTransport::new().json(200, json!({"id": "pi_1"}))
}

fn same(left: &Arc<dyn Store>, right: &Arc<dyn Store>) -> bool {
    Arc::ptr_eq(left, right)
}

#[tokio::test]
async fn a_client_of_the_file_is_durable() {
    let place = Place::with("store = 'sqlite:calls.db'");
    let stripe = client(&place.vendors(), "stripe", &paid());
    assert_eq!(charge(&stripe, "order-1").await.expect("paid").obtained(), Obtained::Fresh);
    drop(stripe);

    // Another life of the service: the file is read again, and nothing is sent.
    let network = ScriptedTransport::new();
    let reply = charge(&client(&place.vendors(), "stripe", &network), "order-1").await.expect("replayed");
    assert_eq!((reply.obtained(), network.requests().len()), (Obtained::Replayed, 0));
    assert_eq!(place.files()[0], "calls.db");
}

/// The course that the picture on the README shows: killed with an answer lost, taken over when the lease has lapsed,
/// and sent under the same wire key.
#[tokio::test]
async fn what_a_crash_left_is_carried_on_with_by_the_next_process() {
    let place = Place::with("store = 'sqlite:calls.db'");
    let life = |network: &ScriptedTransport, clock: &TestClock| {
        let builder = place.vendors().builder("stripe").expect("a vendor").transport(network.clone());
        builder.clock(clock.clone()).build().expect("a client")
    };
    let clock = TestClock::auto();
    let first = ScriptedTransport::new().fail(SendErrorKind::Reset).hang();
    let stripe = life(&first, &clock);
    let call = tokio::spawn(async move { charge(&stripe, "order-1").await });
    while first.requests().len() < 2 {
        tokio::task::yield_now().await;
    }
    call.abort();
    assert!(call.await.expect_err("it was killed").is_cancelled());

    let second =
        ScriptedTransport::new().json(200, json!({"id": "pi_1"})).header("Idempotent-Replayed", "true");
    let stripe = life(&second, &clock);
    assert_eq!(stripe.recover(10).await.expect("works").taken, 0, "the lease still runs");
    assert!(second.requests().is_empty());
    clock.set_wall(clock.wall().plus(Duration::from_secs(3_600)));
    let recovered = stripe.recover(10).await.expect("works");
    assert_eq!((recovered.taken, recovered.succeeded), (1, 1));
    let sent = |network: &ScriptedTransport| {
        let request = network.requests().pop().expect("sent");
        (request.headers["idempotency-key"].clone(), request.body)
    };
    assert_eq!(sent(&second), sent(&first));
    assert_eq!(charge(&stripe, "order-1").await.expect("settled").obtained(), Obtained::Replayed);
    assert_eq!(second.requests().len(), 1);
}

#[test]
fn looking_at_a_file_makes_none() {
    let place = Place::with("store = 'sqlite:calls.db'");
    Vendors::check(place.path("vendors.toml")).expect("good");
    let vendors = place.vendors();
    assert_eq!(vendors.rules().expect("rules").len(), 2);
    let builder = vendors.builder("stripe").expect("a vendor");
    drop(builder.store(Memory::new()).build().expect("a client with a store of its own"));
    drop(vendors.builder("stripe").expect("a vendor"));
    // A client that is refused leaves nothing behind either.
    let unsendable = place.vendors().with_secrets(|_| Some("sk\n".to_owned()));
    unsendable.client("stripe").expect_err("no header can carry it");
    place.vendors().with_secrets(|_| None).client("stripe").expect_err("no secret");
    assert_eq!(place.files(), ["vendors.toml"]);
    drop(vendors.client("stripe").expect("a client"));
    assert_eq!(place.files()[0], "calls.db");
}

#[tokio::test]
async fn a_store_that_is_given_wins() {
    let place = Place::with("store = 'sqlite:calls.db'");
    let own = Arc::new(Memory::new());
    let builder = place.vendors().builder("stripe").expect("a vendor").store(Arc::clone(&own));
    let stripe = builder.transport(paid()).clock(TestClock::auto()).build().expect("a client");
    charge(&stripe, "order-1").await.expect("paid");
    assert_eq!(own.tally().await.expect("counts").len(), 1);
    assert_eq!(place.files(), ["vendors.toml"]);
}

#[tokio::test]
async fn a_store_may_be_given_to_all_clients() {
    for settings in ["store = 'sqlite:calls.db'", ""] {
        let place = Place::with(settings);
        let own = Arc::new(Memory::new());
        let vendors = place.vendors().with_store(Arc::clone(&own));
        charge(&client(&vendors, "stripe", &paid()), "order-1").await.expect("paid");
        let postmark = client(&vendors, "postmark", &ScriptedTransport::new());
        assert_eq!(postmark.store().tally().await.expect("counts").len(), 1);
        assert_eq!(own.tally().await.expect("counts").len(), 1);
        assert!(vendors.store().expect("is open").is_some());
        assert_eq!(place.files(), ["vendors.toml"]);
    }
}

#[tokio::test]
async fn all_clients_of_a_file_share_one_store() {
    for store in ["sqlite:calls.db", "memory", "memory:"] {
        let place = Place::with(&format!("store = '{store}'"));
        let vendors = place.vendors();
        let clone = vendors.clone();
        let stripe = client(&vendors, "stripe", &paid());
        let postmark = client(&clone, "postmark", &ScriptedTransport::new());
        charge(&stripe, "order-1").await.expect("paid");
        let tally = postmark.store().tally().await.expect("counts");
        assert_eq!(tally.len(), 1, "{store}");
        let store = vendors.store().expect("opens").expect("is named");
        assert!(same(&store, &clone.store().expect("opens").expect("is named")));
        let letters = DeadLetters::new(store).with_client(&stripe);
        assert_eq!(letters.stats().await.expect("counts").groups.len(), 1);
    }
}

#[tokio::test]
async fn a_file_that_names_no_store_has_none() {
    let vendors = load(VENDORS);
    assert!(vendors.store().expect("nothing to open").is_none());
    let stripe = client(&vendors, "stripe", &paid());
    charge(&stripe, "order-1").await.expect("paid");
    assert!(client(&vendors, "postmark", &paid()).store().tally().await.expect("counts").is_empty());
}

#[test]
fn a_path_is_relative_to_the_file_and_may_be_absolute() {
    let place = Place::with("store = 'sqlite:../calls.db'");
    let below = place.path("etc");
    std::fs::create_dir(&below).expect("made");
    std::fs::rename(place.path("vendors.toml"), below.join("vendors.toml")).expect("moved");
    Vendors::from_file(below.join("vendors.toml")).expect("loads").store().expect("opens");
    assert!(place.path("calls.db").exists());

    let absolute = place.path("absolute.db");
    let text = format!("store = 'sqlite:{}'\n{VENDORS}", absolute.display());
    Vendors::parse(&text, "etc/vendors.toml").expect("loads").store().expect("opens");
    assert!(absolute.exists());
}

/// The process may change its working directory between the two.
#[test]
fn a_relative_file_is_placed_when_it_is_read() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    std::fs::create_dir_all(folder).expect("made");
    let directory = TempDir::new_in(folder).expect("a directory");
    let here = std::env::current_dir().expect("a working directory");
    // The target folder may be anywhere.
    let is_name = |part: &Component<'_>| matches!(part, Component::Normal(_));
    let up: PathBuf = here.components().filter(is_name).map(|_| "..").collect();
    let relative = up.join(directory.path().components().filter(is_name).collect::<PathBuf>());
    let file = relative.join("vendors.toml");
    std::fs::write(&file, format!("store = 'sqlite:none/calls.db'\n{VENDORS}")).expect("writes");
    let vendors = Vendors::from_file(&file).expect("loads");
    let said = vendors.store().expect_err("there is no such directory").to_string();
    let none = here.join(&relative).join("none");
    let store = none.join("calls.db");
    assert_eq!(
        said,
        format!(
            "{}:1:9: `store`: {} does not open; there is no directory {}",
            file.display(),
            store.display(),
            none.display()
        )
    );
}

#[test]
fn a_store_that_does_not_open_is_tried_again() {
    let place = Place::with("\nstore = 'sqlite:data/calls.db'");
    let vendors = place.vendors();
    let error = vendors.client("stripe").expect_err("there is no such directory");
    let [mistake] = error.mistakes() else { panic!("{error}") };
    assert_eq!((mistake.line(), mistake.column()), (Some(2), Some(9)));
    assert!(mistake.problem().ends_with(&format!("there is no directory {}", place.path("data").display())));
    assert!(error.source().is_some_and(|source| source.is::<StoreError>()));
    std::fs::create_dir(place.path("data")).expect("made");
    vendors.client("stripe").expect("opens");
    assert!(place.path("data/calls.db").exists());

    std::fs::write(place.path("data/calls.db"), "no database at all".repeat(100)).expect("writes");
    let error = place.vendors().client("stripe").expect_err("of another program");
    assert!(error.to_string().ends_with("calls.db does not open"), "{error}");
    let source = error.source().and_then(|source| source.downcast_ref::<StoreError>());
    assert_eq!(source.map(StoreError::kind), Some(StoreErrorKind::Foreign));
}

#[cfg(feature = "seal")]
#[tokio::test]
async fn a_sealed_store_is_opened_with_the_keys_that_the_file_names() {
    use steadfast::store::SealKeys;

    let place = Place::with("store = 'sqlite:calls.db'\nseal_keys_env = 'SHOP_KEYS'");
    let key = "0f".repeat(32);
    let keyed = |keys: Option<String>| {
        place.vendors().with_secrets(move |variable| match variable {
            "SHOP_KEYS" => keys.clone(),
            _ => Some("sk_test".to_owned()),
        })
    };
    let stripe = client(&keyed(Some(key.clone())), "stripe", &paid());
    stripe.post("/v1/customers").key("k").form(&[("name", "Ada")]).send().await.expect("made");
    drop(stripe);
    let reopened = client(&keyed(Some(key.clone())), "stripe", &ScriptedTransport::new());
    assert_eq!(reopened.store().tally().await.expect("counts")[0].count, 1);

    let refused = |keys: Option<String>| keyed(keys).client("stripe").expect_err("no keys").to_string();
    let file = place.path("vendors.toml").display().to_string();
    assert!(
        refused(None).starts_with(&format!(
            "{file}:2:17: `seal_keys_env`: the environment variable SHOP_KEYS is not set"
        )),
        "{}",
        refused(None)
    );
    let said = refused(Some("hunter2".to_owned()));
    assert!(said.starts_with(&format!("{file}:2:17: `seal_keys_env`: SHOP_KEYS: key 1: ")), "{said}");
    assert!(!said.contains("hunter2"));
    let another = keyed(Some("1e".repeat(32))).client("stripe").expect_err("another key");
    let source = another.source().and_then(|source| source.downcast_ref::<StoreError>());
    assert_eq!(source.map(StoreError::kind), Some(StoreErrorKind::Sealed));
    assert!(!another.to_string().contains("seal_keys_env"), "{another}");

    // Without the key in the file: it says which key that is.
    std::fs::write(place.path("open.toml"), format!("store = 'sqlite:calls.db'\n{VENDORS}")).expect("writes");
    let open = Vendors::from_file(place.path("open.toml")).expect("loads").store().expect_err("is sealed");
    assert!(
        open.to_string()
            .ends_with("name the variable with its keys, such as `seal_keys_env = \"STEADFAST_SEAL_KEYS\"`"),
        "{open}"
    );
    Sqlite::builder(place.path("calls.db"))
        .seal(SealKeys::parse(&key, "the key").expect("a key"))
        .open()
        .expect("it is what the builder makes");
}

#[cfg(feature = "seal")]
#[test]
fn keys_need_a_store_that_can_be_sealed() {
    for (settings, expected) in [
        (
            "seal_keys_env = 'KEYS'",
            "1:1: `seal_keys_env` needs a store to seal, such as `store = \"sqlite:vendor-calls.db\"`",
        ),
        (
            "store = 'memory'\nseal_keys_env = 'KEYS'",
            "2:1: `seal_keys_env`: a store in memory is never sealed; name a file in `store`",
        ),
        (
            "store = 'sqlite:x.db'\nseal_keys_env = 'keys'",
            "2:17: `seal_keys_env`: it takes the name of an environment variable in capitals, digits and `_`, such \
             as \"STEADFAST_SEAL_KEYS\"; if this is the secret itself, take it out of the file and make a new key",
        ),
        // Whatever is wrong with the store, it is there.
        ("store = 'sqlit:x.db'\nseal_keys_env = 'KEYS'", "1:9: `store`: did you mean \"sqlite:x.db\"?"),
        (
            "store = sqlite\nseal_keys_env = 'KEYS'",
            "1:9: not TOML: string values must be quoted, expected literal string",
        ),
    ] {
        assert_eq!(
            crate::vendors_file::refusal(&format!("{settings}\n{VENDORS}")),
            format!("vendors.toml:{expected}")
        );
    }
}

#[cfg(not(feature = "seal"))]
#[test]
fn a_build_that_cannot_seal_says_which_feature_does() {
    let text = format!("store = 'sqlite:calls.db'\nseal_keys_env = 'SHOP_KEYS'\n{VENDORS}");
    let said = crate::vendors_file::refusal(&text);
    let expected = "vendors.toml:2:17: `seal_keys_env`: this build of steadfast cannot seal; build it with feature \
                    `seal`";
    assert_eq!(said, expected);
}
