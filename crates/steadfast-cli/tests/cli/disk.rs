//! A store that exists and cannot be written.

use std::process::Command;

use rusqlite::Connection;

use super::{NOW, RunResult, TestDirectory};

#[tokio::test]
async fn a_locked_file_is_named_after_a_wait() {
    let place = TestDirectory::fresh();
    place.lost("order-1", NOW).await;
    let holder = Connection::open(place.path("calls.db")).expect("opens");
    holder.execute_batch("BEGIN IMMEDIATE").expect("held");
    // Side by side, because each waits as long as the store does.
    let (plain, json) = std::thread::scope(|scope| {
        let plain = scope.spawn(|| place.run(&["stats"]));
        let json = scope.spawn(|| place.json_error(3, &["dead-letters", "redrive", "order-1"]));
        (plain.join().expect("ends"), json.join().expect("ends"))
    });
    assert_eq!(plain.code, 3, "{}{}", plain.out, plain.err);
    assert!(plain.err.contains("another connection holds the file"), "{}", plain.err);
    assert_eq!(json["code"], "store");
    holder.execute_batch("ROLLBACK").expect("let go");
    place.run(&["stats"]).ended(0);
}

#[cfg(unix)]
#[tokio::test]
async fn a_file_that_may_not_be_written_is_named() {
    use std::fs::{Permissions, set_permissions};
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    use std::os::unix::process::CommandExt;

    let place = TestDirectory::fresh();
    place.lost("order-1", NOW).await;
    let mode = |name: &str, mode| set_permissions(place.path(name), Permissions::from_mode(mode));
    mode("calls.db", 0o444).expect("its owner may");
    // Mode bits bind every user but root.
    let binary = place.path("steadfast");
    // In a process of its own: a child that another test forks while this one writes would keep the file busy.
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_steadfast")).arg(&binary).status();
    assert!(copied.expect("cp runs").success());
    let mut command = Command::new(binary);
    if place.path("calls.db").metadata().expect("there").uid() == 0 {
        mode(".", 0o755).expect("its owner may");
        command.uid(65_534).gid(65_534);
    }
    let output = command.args(["--store", "calls.db", "stats"]).current_dir(place.path(".")).output();
    let result = RunResult::new(&output.expect("the binary runs"));
    assert_eq!(result.code, 3, "{}{}", result.out, result.err);
    assert_eq!(result.err, "steadfast: the store does not open: calls.db is not writable\n");
}

/// On a file system of a megabyte, in a mount namespace of its own: Linux, and a host that grants one.
#[tokio::test]
#[allow(clippy::print_stderr, reason = "a test that is skipped says so")]
async fn a_full_disk_is_named() {
    let place = TestDirectory::fresh();
    place.lost("order-1", NOW).await;
    // All of it into the one file that is copied.
    let moved = Connection::open(place.path("calls.db"))
        .and_then(|log| log.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |row| row.get::<_, i64>(0)));
    assert_eq!(moved, Ok(0), "nobody is in the way");
    std::fs::create_dir(place.path("full")).expect("a directory");
    let unshare = |script: &str| {
        let mount = "mount -t tmpfs -o size=1m tmpfs full";
        let script = format!("{mount} && {{ {script}; }}");
        let arguments = ["--user", "--map-root-user", "--mount", "sh", "-c", &script];
        Command::new("unshare").args(arguments).current_dir(place.path(".")).output()
    };
    if !unshare("true").is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: this host grants no mount namespace, so there is no disk to fill");
        return;
    }
    let binary = env!("CARGO_BIN_EXE_steadfast");
    let fill = "cp calls.db full/; head -c 2000000 /dev/zero >full/filling 2>&-";
    // No room at all; and enough for the memory that connections share, but not for what they log.
    for (free, command) in [
        (0, "stats"),
        (
            36_864,
            "dead-letters resolve order-1 --not-applied --by ada --why \"$(head -c 4000 /dev/zero | tr '\\0' x)\"",
        ),
    ] {
        let room = format!("truncate -s -{free} full/filling");
        let output = unshare(&format!("{fill}; {room}; {binary} --store full/calls.db {command}"));
        let result = RunResult::new(&output.expect("runs"));
        assert_eq!(result.code, 3, "{free} bytes free: {}{}", result.out, result.err);
        assert!(result.err.contains("no room is left"), "{free} bytes free: {}", result.err);
    }
}
