//! Who may know whom: arrows between crates point down only.
//!
//! The table is the whole truth: a crate that is not in it may not exist, a dependency that is not
//! in its row may not be. Only `[dependencies]` count (also those of a target platform); tests may
//! look up.

use super::finding::Finding;
use crate::tree::Tree;
use toml::Table;

const RULE: &str = "layers";
const PREFIX: &str = "varve-";

/// Each crate with the crates of this workspace it may depend on.
///
/// `ftl` lays out no redundancy, `array` nothing of the map, `target` nothing of flash; nothing
/// below `control` knows a real or modelled drive.
const LAYERS: [(&str, &[&str]); 19] = [
    ("units", &[]),
    ("gf", &[]),
    ("nvme", &[]),
    ("io", &["units"]),
    ("format", &["units", "io"]),
    ("array", &["units", "io", "format", "gf"]),
    ("ftl", &["units", "io", "format"]),
    ("target", &["units", "io", "nvme"]),
    ("initiator", &["units", "io", "nvme"]),
    ("pool", &["units", "io", "format", "array", "ftl"]),
    ("hostio", &["units", "io"]),
    ("media", &["units", "io"]),
    (
        "control",
        &[
            "units", "io", "format", "array", "ftl", "pool", "hostio", "media",
        ],
    ),
    (
        "server",
        &["units", "io", "ftl", "target", "hostio", "control"],
    ),
    (
        "sim",
        &[
            "units",
            "io",
            "format",
            "gf",
            "nvme",
            "array",
            "ftl",
            "target",
            "initiator",
            "pool",
            "server",
            "media",
        ],
    ),
    (
        "lab",
        &[
            "units", "io", "format", "gf", "array", "ftl", "pool", "media", "sim", "hostio",
        ],
    ),
    (
        "varve",
        &[
            "units",
            "io",
            "format",
            "gf",
            "nvme",
            "array",
            "ftl",
            "target",
            "initiator",
            "pool",
            "hostio",
            "server",
            "control",
            "media",
            "sim",
            "lab",
        ],
    ),
    ("guest", &[]),
    ("xtask", &["guest"]),
];

/// Checks every crate's manifest.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let manifests = tree.ending("/Cargo.toml").filter_map(|(path, text)| {
        let package = path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml")?;
        Some((path, package, text))
    });
    manifests
        .flat_map(|(path, package, text)| check_crate(path, package, text))
        .collect()
}

fn check_crate(path: &str, package: &str, text: &str) -> Vec<Finding> {
    let found = |text: String| Finding::error(RULE, path, 1, text);
    let Some((_, below)) = LAYERS.iter().find(|(name, _)| *name == package) else {
        return vec![found(format!(
            "crate `{package}` has no row in the layer table of xtask"
        ))];
    };
    let manifest: Table = match text.parse() {
        Ok(manifest) => manifest,
        Err(error) => return vec![found(error.to_string())],
    };
    let ours = dependencies(&manifest).into_iter().filter_map(|name| {
        name.strip_prefix(PREFIX)
            .or_else(|| (name == "varve").then_some("varve"))
            .map(str::to_owned)
    });
    let wrong = ours.filter(|name| !below.contains(&name.as_str()));
    wrong
        .map(|name| found(format!("`{package}` must not depend on `{name}`")))
        .collect()
}

/// Names of the packages in all `[dependencies]` of a manifest.
fn dependencies(manifest: &Table) -> Vec<String> {
    let own = std::iter::once(manifest);
    let platforms = manifest.get("target").and_then(|target| target.as_table());
    let platforms = platforms
        .into_iter()
        .flat_map(|all| all.values())
        .filter_map(|p| p.as_table());
    let tables = own
        .chain(platforms)
        .filter_map(|table| table.get("dependencies")?.as_table());
    let entries = tables.flat_map(|table| table.iter());
    let renamed = |(key, value): (&String, &toml::Value)| {
        value
            .get("package")
            .and_then(|name| name.as_str())
            .unwrap_or(key)
            .to_owned()
    };
    entries.map(renamed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(package: &str, text: &str) -> Vec<String> {
        check_crate("Cargo.toml", package, text)
            .into_iter()
            .map(|f| f.text)
            .collect()
    }

    #[test]
    fn arrows_point_down() {
        let down = "[dependencies]\nvarve-io.workspace = true\nzerocopy = \"1\"";
        assert!(found("ftl", down).is_empty());
        let up = "[dependencies]\nvarve-array.workspace = true";
        assert_eq!(found("ftl", up), ["`ftl` must not depend on `array`"]);
        assert!(found("ftl", "[dev-dependencies]\nvarve-sim.workspace = true").is_empty());
    }

    #[test]
    fn disguises_are_seen_through() {
        let renamed = "[dependencies]\nx = { package = \"varve-sim\", path = \"../sim\" }";
        assert_eq!(found("pool", renamed).len(), 1);
        let platform = "[target.'cfg(unix)'.dependencies]\nvarve-hostio.workspace = true";
        assert_eq!(found("pool", platform).len(), 1);
        assert_eq!(
            found("sim", "[dependencies.varve]\npath = \"../varve\"").len(),
            1
        );
    }

    #[test]
    fn a_crate_needs_a_row() {
        assert_eq!(found("surprise", "").len(), 1);
        assert_eq!(found("units", "[dependencies").len(), 1);
    }

    #[test]
    fn the_table_has_no_circle() {
        for (at, (name, below)) in LAYERS.iter().enumerate() {
            for other in *below {
                let row = LAYERS.iter().position(|(row, _)| row == other);
                assert!(row.is_some_and(|row| row < at), "{name} -> {other}");
            }
        }
    }
}
