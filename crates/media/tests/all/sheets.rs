//! The drives that come with the program.

use varve_media::sheet::{SheetError, names};
use varve_media::{AnySheet, Shape, ShapeError, Sheet, any_sheet};

const WORTH: [&str; 7] = [
    "read:",
    "second-hand:",
    "computed:",
    "fitted:",
    "from memory",
    "arbitrary:",
    "measured:",
];

fn check_source(path: &str, value: &toml::Value) {
    let table = value.as_table().expect(path);
    let source = table.get("source").and_then(toml::Value::as_str);
    let source = source.expect(path);
    let is_worth = WORTH.iter().any(|worth| source.starts_with(worth));
    assert!(is_worth, "{path}: {source}");
    assert!(source.len() > 10, "{path}: {source}");
}

/// Every number of every file, whatever its kind.
#[test]
fn every_drive_parses_and_says_where_its_numbers_come_from() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/drives");
    let mut files = 0;
    for file in std::fs::read_dir(folder).expect(folder) {
        let path = file.expect(folder).path();
        let name = path.file_stem().and_then(|name| name.to_str());
        let name = name.expect("a name");
        AnySheet::named(name).expect(name);
        let text = std::fs::read_to_string(&path).expect(name);
        let sheet: toml::Table = text.parse().expect(name);
        for (group, numbers) in sheet.iter().filter(|(key, _)| *key != "name") {
            for (number, value) in numbers.as_table().expect(group) {
                check_source(&format!("{name} {group}.{number}"), value);
            }
        }
        files += 1;
    }
    assert_eq!(files, any_sheet::names().count());
}

/// Ratios and the number of erase units stay when a drive is scaled.
#[test]
fn drives_scale() {
    for name in names() {
        let sheet = Sheet::named(name).expect(name);
        let full = sheet.capacity.user_bytes.value;
        let large = Shape::scaled(&sheet, full).expect(name);
        let small = Shape::scaled(&sheet, full / 64).expect(name);
        assert_eq!(large.units, small.units, "{name}");
        assert_eq!(large.iu_bytes, small.iu_bytes, "{name}");
        assert!(
            (large.spare() / small.spare() - 1.0).abs() < 0.001,
            "{name}"
        );
        let unit = u64::from(large.unit_ius) * u64::from(large.iu_bytes);
        let stated = sheet.flash.erase_unit_bytes.value;
        let off = unit as f64 / stated as f64 - 1.0;
        assert!(off.abs() < 0.01, "{name}: {unit} of {stated}");
    }
}

/// A drive for a demonstration on a laptop.
#[test]
fn a_few_gibibytes_are_enough() {
    let sheet = Sheet::named("qlc-p5316").expect("it comes with the program");
    let shape = Shape::scaled(&sheet, 4 << 30).expect("a possible drive");
    assert_eq!((shape.bytes, shape.ius), (4 << 30, 65536));
    assert!(shape.units > 400, "{shape:?}");
    let tiny = Shape::scaled(&sheet, 1 << 20);
    assert_eq!(
        tiny,
        Err(ShapeError::TooSmall {
            bytes_min: 384 << 16
        })
    );
    assert!(Shape::scaled(&sheet, 384 << 16).is_ok());
}

#[test]
fn a_drive_of_whole_units_has_them_and_its_spare() {
    for (units, ius, spare) in [
        (200, 4951, 1_078_000_u64),
        (24, 16, 1_000_001),
        (904, 77, 1_600_000),
    ] {
        let shape = Shape::of_units(4096, (units, ius), spare, 32, true).expect("possible");
        assert_eq!(u64::from(shape.unit_ius), ius);
        assert_eq!(shape.bytes, units * ius * 4096);
        // Three and a quarter are beside what the spare counts.
        let closed = f64::from(shape.units) - 3.25;
        let found = closed / units as f64;
        let wanted = spare as f64 / 1e6;
        assert!(
            found >= wanted && found < wanted + 1.0 / units as f64,
            "{found} for {wanted}"
        );
    }
    for (units, ius) in [(23, 100), (100, 15)] {
        let small = Shape::of_units(4096, (units, ius), 1_100_000, 32, true);
        assert!(
            matches!(small, Err(ShapeError::TooSmall { .. })),
            "{units} of {ius}"
        );
    }
    for size in [
        (1 << 40, 1 << 40),
        (u64::MAX, 16),
        (24, u64::MAX),
        (1 << 20, 1 << 20),
    ] {
        let large = Shape::of_units(4096, size, 1_100_000, 32, true);
        assert!(
            matches!(large, Err(ShapeError::TooLarge { .. })),
            "{size:?}"
        );
    }
}

#[test]
fn errors_say_what_is_wrong() {
    let unknown = Sheet::named("floppy").expect_err("no such drive");
    assert_eq!(unknown.to_string(), "no drive is called «floppy»");
    let text = "name = \"x\"\n[capacity]\nuser_bytes = { value = 1 }\n";
    let Err(SheetError::Malformed { what }) = Sheet::parse(text) else {
        panic!("a number without its source");
    };
    assert!(what.contains("source"), "{what}");
    let new = |iu, spare, slots| Shape::new(1 << 40, iu, 200, spare, slots, true);
    assert_eq!(new(5000, 1_100_000, 32), Err(ShapeError::Iu(5000)));
    assert_eq!(new(4096, 1_000_000, 32), Err(ShapeError::Spare(1_000_000)));
    assert_eq!(new(4096, 1_100_000, 0), Err(ShapeError::Slots(0)));
    let Err(ShapeError::TooLarge { bytes_max }) =
        Shape::new(1 << 50, 4096, 200, 1_100_000, 32, true)
    else {
        panic!("places fit 32 bits");
    };
    assert!(Shape::new(bytes_max, 4096, 200, 1_100_000, 32, true).is_ok());
}
