//! The layout tables are an interface: a change shows up in `golden/layout.md`.

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
