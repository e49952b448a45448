//! The ground under a store in a file: mounts, links and file systems on which a file is no safe place for records.
//!
//! Asked when a client for a vendor that is not on loopback is built, and nowhere else: tests and tools work anywhere.

use std::path::Path;

use crate::guard::Guard;

/// The mount that a path lies on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Its file system, in the kernel's word.
    pub file_system: String,
    /// Whether the path itself is what was mounted.
    is_the_path: bool,
    /// Whether it is mounted at `/`.
    is_root: bool,
}

impl Mount {
    /// The mount of `path` by what the kernel lists (`man 5 proc_pid_mountinfo`). `path` has no links in it. The last
    /// line counts where several have the same mount point: it covers the others.
    pub fn of(path: &Path, mountinfo: &str) -> Option<Mount> {
        let mounts = mountinfo.lines().filter_map(|line| {
            let (before, after) = line.split_once(" - ")?;
            let point = unescaped(before.split(' ').nth(4)?);
            path.starts_with(&point).then(|| (point, after.split(' ').next().unwrap_or_default()))
        });
        let (point, file_system) = mounts.max_by_key(|(point, _)| Path::new(point).components().count())?;
        Some(Mount {
            file_system: file_system.to_owned(),
            is_the_path: Path::new(&point) == path,
            is_root: point == "/",
        })
    }

    /// Whether the file system makes inodes and birth times up: they differ from mount to mount.
    pub fn makes_identities_up(&self) -> bool {
        let name = self.file_system.as_str();
        is_user_space(name)
            || matches!(
                name,
                "9p" | "virtiofs" | "fakeowner" | "vboxsf" | "vfat" | "msdos" | "exfat" | "umsdos"
            )
    }
}

/// Judges where a file is: refused for this reason, or taken with these warnings.
pub fn judge(mount: Option<&Mount>, links: u64, network_fs_allowed: bool) -> Result<Vec<String>, String> {
    if Guard::SafeFooting.is_out() {
        return Ok(Vec::new());
    }
    if links > 1 {
        return Err(format!(
            "it has {links} names (hard links), and each of them would get a log of its own; keep one name, and remove the \
             others"
        ));
    }
    let Some(mount) = mount else { return Ok(Vec::new()) };
    if mount.is_the_path {
        return Err("the file alone is mounted, so that SQLite's log beside it stays behind in the container and is lost \
                    with it; mount the directory that the file is in"
            .to_owned());
    }
    let name = mount.file_system.as_str();
    if NETWORK.contains(&name) || name.starts_with("fuse.ceph") {
        let problem = format!(
            "it is on a network file system ({name}), where SQLite's locks and shared memory do not hold between hosts \
             (https://www.sqlite.org/wal.html); keep it on a disk of the host, or in Postgres"
        );
        return if network_fs_allowed { Ok(Vec::new()) } else { Err(format!("{problem}; {ALLOW}")) };
    }
    let warning = match name {
        "tmpfs" | "ramfs" | "devtmpfs" => format!(
            "the store's file is in memory ({name}): a reboot loses its records, and what was sent is sent again; put it \
             on a disk"
        ),
        "overlay" | "aufs" if mount.is_root => {
            "the store's file is in the container's own layer, which goes with the \
             container: a new container sends again what was sent; mount a volume at its directory"
                .to_owned()
        }
        _ if mount.makes_identities_up() && !matches!(name, "vfat" | "msdos" | "exfat" | "umsdos") => {
            format!(
                "the store's file is on {name}, where locks and syncs are only as good as what is behind it, and a copy \
             cannot be told from the original; put it on a volume of the host's own file system"
            )
        }
        _ => return Ok(Vec::new()),
    };
    Ok(vec![warning])
}

fn is_user_space(file_system: &str) -> bool {
    file_system == "fuse" || file_system == "fuseblk" || file_system.starts_with("fuse.")
}

/// The kernel writes space, tab, line end and backslash in octal.
fn unescaped(point: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(point.to_owned(), |text, (escape, letter)| text.replace(escape, letter))
}

/// File systems that several hosts may have open, by the kernel's names.
const NETWORK: [&str; 15] = [
    "nfs", "nfs4", "cifs", "smb3", "smbfs", "ncpfs", "ceph", "lustre", "afs", "gpfs", "beegfs", "pvfs2",
    "gfs2", "ocfs2", "coda",
];

/// Hint at the option that overrides the refusal of a network file system.
const ALLOW: &str = "if one host alone ever uses it, say so with network_fs=allow in the store's URL, or SqliteBuilder::allow_network_fs";

#[cfg(test)]
mod tests {
    use super::*;

    /// Mounts as `docker run -v ./calls.db:/app/calls.db -v data:/data` shows them, and others.
    const MOUNTS: &str = "\
21 1 0:50 / / rw,relatime master:1 - overlay overlay rw,lowerdir=/a,upperdir=/b
22 21 0:22 / /proc rw - proc proc rw
23 21 254:1 /home/ada/calls.db /app/calls.db rw - ext4 /dev/vda1 rw
24 21 254:1 /volumes/data /data rw - ext4 /dev/vda1 rw
25 21 0:30 / /net rw - nfs4 server:/export rw
26 21 0:31 / /share rw - cifs //server/share rw
27 21 0:32 / /tmp rw - tmpfs tmpfs rw
28 21 0:33 / /mac rw - virtiofs share rw
35 21 0:40 / /desktop rw - fakeowner share rw
29 21 0:34 / /ssh rw - fuse.sshfs host:/ rw
30 21 0:35 / /ceph rw - fuse.ceph-fuse ceph rw
31 21 0:36 / /a\\040b rw - 9p share rw
32 24 0:37 / /data/inner rw - xfs /dev/vdb rw
33 21 0:38 / /usb rw - vfat /dev/sdb1 rw
34 25 0:39 / /net rw - ext4 /dev/vdc rw
";

    fn says(path: &str, links: u64) -> String {
        let mount = Mount::of(Path::new(path), MOUNTS);
        match judge(mount.as_ref(), links, false) {
            Ok(warnings) => warnings.first().map_or("good".to_owned(), |text| format!("warned: {text}")),
            Err(problem) => format!("refused: {problem}"),
        }
    }

    #[test]
    fn a_file_is_judged_by_its_mount() {
        for (path, expected) in [
            ("/app/calls.db", "refused: the file alone is mounted"),
            ("/app/other.db", "warned: the store's file is in the container's own layer"),
            ("/data/calls.db", "good"),
            ("/data/inner/calls.db", "good"),
            ("/database/calls.db", "warned: the store's file is in the container's own layer"),
            ("/share/calls.db", "refused: it is on a network file system (cifs)"),
            ("/ceph/calls.db", "refused: it is on a network file system (fuse.ceph-fuse)"),
            ("/tmp/calls.db", "warned: the store's file is in memory (tmpfs)"),
            ("/mac/calls.db", "warned: the store's file is on virtiofs"),
            ("/desktop/calls.db", "warned: the store's file is on fakeowner"),
            ("/ssh/calls.db", "warned: the store's file is on fuse.sshfs"),
            ("/a b/calls.db", "warned: the store's file is on 9p"),
            ("/usb/calls.db", "good"),
            ("/net/calls.db", "good"), // something else is mounted over it
        ] {
            let said = says(path, 1);
            assert!(said.starts_with(expected), "{path}: {said}");
        }
        assert!(says("/data/calls.db", 2).starts_with("refused: it has 2 names"));
    }

    #[test]
    fn a_network_file_system_may_be_allowed_and_nothing_else() {
        let mount = |path: &str| Mount::of(Path::new(path), MOUNTS);
        assert_eq!(judge(mount("/share/calls.db").as_ref(), 1, true), Ok(Vec::new()));
        assert!(judge(mount("/app/calls.db").as_ref(), 1, true).is_err());
        assert!(judge(mount("/share/calls.db").as_ref(), 2, true).is_err());
        assert_eq!(judge(None, 1, false), Ok(Vec::new()), "a system that lists no mounts");
    }

    #[test]
    fn made_up_identities_are_no_facts() {
        for (path, expected) in [
            ("/mac/x", true),
            ("/ssh/x", true),
            ("/usb/x", true),
            ("/a b/x", true),
            ("/data/x", false),
            ("/x", false),
        ] {
            let mount = Mount::of(Path::new(path), MOUNTS).expect("is mounted");
            assert_eq!(mount.makes_identities_up(), expected, "{path}");
        }
    }
}
