//! A password that is not in the URL, from where libpq looks for it. The URL is in a file that is shown and
//! kept, and a password must not be. (<https://www.postgresql.org/docs/current/libpq-pgpass.html>)
//!
//! It is read at each connection, because passwords change while services run. A file that is being written may
//! be empty for a moment, so the last password stays until there is another.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fmt, fs};

use parking_lot::Mutex;
use secrecy::zeroize::Zeroizing;
use tokio_postgres::Config;
use tokio_postgres::config::Host;

use steadfast_core::internal::ext::StoreErrorExt;
use steadfast_core::store::{StoreError, StoreErrorKind};

/// A function that returns the password.
#[derive(Clone)]
pub(super) struct PasswordSource(Arc<dyn Fn() -> Option<String> + Send + Sync>);

impl PasswordSource {
    pub(super) fn of(ask: impl Fn() -> Option<String> + Send + Sync + 'static) -> PasswordSource {
        PasswordSource(Arc::new(ask))
    }
}

impl fmt::Debug for PasswordSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Asked")
    }
}

/// Sources of the next connection's password, and the last one.
pub(super) struct Passwords {
    source: Option<PasswordSource>,
    last: Mutex<Option<Zeroizing<Vec<u8>>>>,
    /// Error of reading a file that the URL does not name. As with libpq, it is no error where the server asks
    /// for no password.
    unread: Mutex<Option<StoreError>>,
}

impl Passwords {
    pub(super) fn new(source: Option<PasswordSource>) -> Passwords {
        Passwords { source, last: Mutex::default(), unread: Mutex::default() }
    }

    /// Returns why the file of `PGPASSFILE`, or `~/.pgpass`, was not read the last time.
    pub(super) fn unread(&self) -> Option<StoreError> {
        self.unread.lock().as_ref().map(StoreError::again)
    }

    /// Sets the password of `config`; see [`complete`]. If it cannot be read now, the last one is used.
    ///
    /// # Errors
    ///
    /// Those of [`complete`] for a file that the URL names, if no password was ever read.
    pub(super) async fn complete(
        &self,
        config: &mut Config,
        named: Option<&Path>,
        environment: impl Fn(&str) -> Option<OsString>,
    ) -> Result<(), StoreError> {
        let read = match &self.source {
            None => complete(config, named, environment),
            Some(PasswordSource(ask)) => {
                // The function may query another server.
                let ask = Arc::clone(ask);
                let source = tokio::task::spawn_blocking(move || ask().map(Zeroizing::new)).await;
                if let Some(password) = source.ok().flatten().filter(|password| !password.is_empty()) {
                    config.password(&*password);
                }
                Ok(())
            }
        };
        let mut last = self.last.lock();
        match (config.get_password(), last.as_ref()) {
            (Some(password), _) => *last = Some(Zeroizing::new(password.to_vec())),
            (None, Some(last)) => {
                config.password(&**last);
            }
            (None, None) if named.is_some() => return read,
            (None, None) => {}
        }
        *self.unread.lock() = read.err();
        Ok(())
    }
}

/// Sets the password of `config`, if it has none and another source has one: `PGPASSWORD`, else the file that
/// the URL names (`passfile`), else that of `PGPASSFILE`, else `~/.pgpass`.
///
/// # Errors
///
/// `Invalid` for a file that cannot be read, or that other users can read.
pub(super) fn complete(
    config: &mut Config,
    named: Option<&Path>,
    environment: impl Fn(&str) -> Option<OsString>,
) -> Result<(), StoreError> {
    if config.get_password().is_some() {
        return Ok(());
    }
    if let Some(password) = environment("PGPASSWORD").filter(|password| !password.is_empty()) {
        config.password(password.into_encoded_bytes());
        return Ok(());
    }
    let set = environment("PGPASSFILE").filter(|path| !path.is_empty()).map(PathBuf::from);
    let file = match named.map(Path::to_owned).or(set) {
        Some(file) => file,
        None => match environment("HOME").map(|home| Path::new(&home).join(".pgpass")) {
            Some(file) if file.exists() => file,
            _ => return Ok(()),
        },
    };
    let text = read(&file)?;
    if let Some(password) = find(&text, config).filter(|password| !password.is_empty()) {
        config.password(&*password);
    }
    Ok(())
}

fn read(file: &Path) -> Result<Zeroizing<String>, StoreError> {
    let shown = file.display();
    let invalid = |problem: String| StoreError::new(problem).of_kind(StoreErrorKind::Invalid);
    let unread =
        |error: std::io::Error| invalid(format!("the file of passwords {shown} cannot be read: {error}"));
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;

        let mode = fs::metadata(file).map_err(unread)?.permissions().mode();
        if mode & 0o077 != 0 {
            return Err(invalid(format!("others can read the file of passwords {shown}: chmod 600 {shown}")));
        }
    }
    fs::read_to_string(file).map(Zeroizing::new).map_err(unread)
}

/// Returns the password of the first line that matches the first host.
fn find(text: &str, config: &Config) -> Option<Zeroizing<String>> {
    let host = match config.get_hosts().first() {
        Some(Host::Tcp(name)) => name.clone(),
        #[cfg(unix)]
        Some(Host::Unix(path)) => path.display().to_string(),
        None => config.get_hostaddrs().first()?.to_string(),
    };
    let port = config.get_ports().first().copied().unwrap_or(5432).to_string();
    let user = config.get_user().unwrap_or_default();
    let wanted = [host.as_str(), &port, config.get_dbname().unwrap_or(user), user];
    text.lines().filter(|line| !line.starts_with('#')).find_map(|line| {
        let mut fields = fields(line);
        let password = fields.pop()?;
        let fits = fields.len() == wanted.len()
            && fields
                .iter()
                .zip(wanted)
                .all(|(field, wanted)| field.as_str() == "*" || field.as_str() == wanted);
        fits.then_some(password)
    })
}

/// Splits a line into its fields, at most five. `\` escapes the next character.
fn fields(line: &str) -> Vec<Zeroizing<String>> {
    let mut fields = vec![Zeroizing::new(String::new())];
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        let is_last = fields.len() == 5;
        match (letter, fields.last_mut()) {
            ('\\', Some(field)) => field.extend(letters.next()),
            (':', _) if !is_last => fields.push(Zeroizing::new(String::new())),
            (letter, Some(field)) => field.push(letter),
            (_, None) => {}
        }
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(url: &str) -> Config {
        url.parse().expect("a URL")
    }

    fn password(config: &Config) -> Option<&str> {
        config.get_password().map(|password| std::str::from_utf8(password).expect("text"))
    }

    #[test]
    fn the_first_matching_line_gives_the_password() {
        let text = "# a comment\nother:5432:shop:shop:no\ndb:*:shop:shop:a\\:b\\\\c:d\n*:*:*:*:last\n";
        for (url, expected) in [
            ("postgres://shop@db/shop", "a:b\\c:d"),
            ("postgres://shop@db:6432/shop", "a:b\\c:d"),
            ("postgres://shop@db/other", "last"),
            ("postgres://shop@db", "a:b\\c:d"),
        ] {
            assert_eq!(find(text, &config(url)).expect(url).as_str(), expected, "{url}");
        }
        assert!(find("db:5432:shop:pw\n\nx", &config("postgres://shop@db/shop")).is_none(), "too few fields");
    }

    #[cfg(unix)]
    #[test]
    fn the_first_source_with_a_password_gives_it() {
        use std::os::unix::fs::PermissionsExt;

        let home = tempfile::TempDir::new().expect("a directory");
        let write = |name: &str, password: &str, mode: u32| {
            let path = home.path().join(name);
            fs::write(&path, format!("*:*:*:*:{password}\n")).expect("written");
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("set");
            path
        };
        let (in_home, set) = (write(".pgpass", "home", 0o600), write("set", "set", 0o400));
        let (named, open) = (write("named", "named", 0o600), write("open", "open", 0o640));
        let bare = "postgres://shop@db/shop";
        let completed = |url: &str, file: Option<&Path>, more: &[(&str, &Path)]| {
            let mut config = config(url);
            let all =
                |name: &str| more.iter().find(|(key, _)| *key == name).map(|(_, path)| OsString::from(path));
            complete(&mut config, file, all).map(|()| password(&config).map(str::to_owned))
        };
        let (home_set, file_set) = (("HOME", home.path()), ("PGPASSFILE", set.as_path()));
        let typed = ("PGPASSWORD", Path::new("typed"));
        for (file, more, expected) in [
            (None, &[][..], None),
            (None, &[home_set][..], Some("home")),
            (None, &[home_set, file_set], Some("set")),
            (Some(named.as_path()), &[home_set, file_set], Some("named")),
            (Some(named.as_path()), &[home_set, file_set, typed], Some("typed")),
        ] {
            assert_eq!(completed(bare, file, more).expect("read").as_deref(), expected);
        }
        let own = completed("postgres://shop:own@db/shop", Some(&named), &[typed]).expect("read");
        assert_eq!(own.as_deref(), Some("own"));
        for file in [open.as_path(), Path::new("/no/such")] {
            let error = completed(bare, Some(file), &[]).expect_err("not read");
            assert_eq!(error.kind(), StoreErrorKind::Invalid);
        }
        // The server may ask for none, and the URL names no file.
        let passwords = Passwords::new(None);
        let in_the_way = |name: &str| (name == "PGPASSFILE").then(|| OsString::from(&open));
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(passwords.complete(&mut config(bare), None, in_the_way)).expect("as libpq");
        assert!(passwords.unread().expect("why").to_string().contains("chmod 600"));
        fs::remove_file(in_home).expect("removed");
        assert_eq!(completed(bare, None, &[home_set]).expect("none"), None);
    }
}
