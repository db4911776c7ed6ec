//! The layout tables are an interface: a change shows up in `golden/layout.md`.

use std::fs;
use std::path::Path;
use varve_format::layout;

/// To accept a change of the layout, run the test once with `VARVE_GOLDEN=update`, and review the
/// difference of `golden/layout.md` like that of an interface.
#[test]
fn layout_is_pinned() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../golden/layout.md");
    let tables = layout::tables();
    if std::env::var("VARVE_GOLDEN").is_ok_and(|value| value == "update") {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &tables).unwrap();
    }
    let pinned = std::fs::read_to_string(&path).unwrap();
    assert_eq!(tables, pinned, "run with VARVE_GOLDEN=update and review");
}

const BEGIN: &str = "<!-- layout: begin; written by `make golden` -->\n";
const END: &str = "<!-- layout: end -->\n";

/// The document for readers holds the tables as the code has them, one heading level down.
#[test]
fn document_is_in_step() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/format.md");
    let text = fs::read_to_string(&path).unwrap();
    let (before, rest) = text
        .split_once(BEGIN)
        .expect("a mark where the tables begin");
    let (tables, after) = rest.split_once(END).expect("a mark where the tables end");
    let lines = layout::tables();
    let lines = lines.split_inclusive('\n');
    let deeper = |line| if str::starts_with(line, '#') { "#" } else { "" };
    let expected: String = lines.flat_map(|line| [deeper(line), line]).collect();
    if std::env::var("VARVE_GOLDEN").is_ok_and(|value| value == "update") {
        fs::write(&path, [before, BEGIN, &expected, END, after].concat()).unwrap();
    } else {
        assert_eq!(tables, expected, "run with VARVE_GOLDEN=update and review");
    }
}
