//! The packages of this workspace, as Cargo knows them: none can be left out of what reads their sources.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// A package of the workspace.
#[derive(Clone, Debug)]
pub struct Member {
    pub name: String,
    /// The folder of its manifest, from the root of the workspace; empty for the package at the root.
    pub folder: PathBuf,
    /// The file that its library begins with, from the root of the workspace.
    pub library: Option<PathBuf>,
    /// The packages of the workspace that its library or program is made of, sorted.
    pub uses: Vec<String>,
}

impl Member {
    /// Whether users build it: not an example, nor a test.
    pub fn is_product(&self) -> bool {
        self.folder.as_os_str().is_empty() || self.folder.starts_with("crates")
    }

    /// The name of its library in code.
    pub fn crate_name(&self) -> String {
        self.name.replace('-', "_")
    }

    /// Its own source files, with their texts; paths are from the root of the workspace.
    pub fn sources(&self) -> Vec<(PathBuf, String)> {
        let own = self.folder.join("src");
        let is_elsewhere = !root().join(&own).is_dir();
        sources(if is_elsewhere { &self.folder } else { &own })
    }
}

pub fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

/// Every package of the workspace.
pub fn members() -> Vec<Member> {
    let mut cargo = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".into()));
    cargo.args(["metadata", "--no-deps", "--offline", "--format-version", "1"]).current_dir(root());
    let output = cargo.output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("JSON of cargo's");
    let packages = metadata["packages"].as_array().expect("packages");
    let mut members: Vec<_> = packages.iter().map(member).collect();
    members.sort_by(|one, other| one.folder.cmp(&other.folder));
    assert_eq!(members[0].name, "steadfast", "the package at the root");
    members
}

/// Those that users build.
pub fn products() -> Vec<Member> {
    members().into_iter().filter(Member::is_product).collect()
}

fn member(package: &Value) -> Member {
    let of_root = |path: &Value| {
        let path = Path::new(path.as_str().expect("a path"));
        path.strip_prefix(fs::canonicalize(root()).expect("the root")).expect("below the root").to_owned()
    };
    let is_used = |dependency: &&Value| dependency["kind"].is_null() && dependency["path"].is_string();
    let dependencies = package["dependencies"].as_array().expect("dependencies").iter().filter(is_used);
    let mut uses: Vec<_> =
        dependencies.map(|dependency| dependency["name"].as_str().expect("a name").to_owned()).collect();
    uses.sort();
    let targets = package["targets"].as_array().expect("targets");
    let library = targets.iter().find(|target| target["kind"][0] == "lib");
    Member {
        name: package["name"].as_str().expect("a name").to_owned(),
        folder: of_root(&package["manifest_path"]).parent().expect("a folder").to_owned(),
        library: library.map(|target| of_root(&target["src_path"])),
        uses,
    }
}

/// The Rust files below a folder, with their texts; both paths are from the root of the workspace.
pub fn sources(folder: &Path) -> Vec<(PathBuf, String)> {
    let (mut folders, mut found) = (vec![root().join(folder)], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display())) {
            let path = entry.expect("a directory entry").path();
            if path.is_dir() && !path.ends_with("target") {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).expect("a source file");
                found.push((path.strip_prefix(root()).expect("below the root").to_owned(), text));
            }
        }
    }
    found.sort();
    found
}
