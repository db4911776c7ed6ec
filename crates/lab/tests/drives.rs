//! Each modelled drive does what is published of it.

use varve_lab::drive::{Job, Measure, measure};
use varve_media::Sheet;
use varve_media::sheet::names;

#[test]
fn drives_do_what_is_published_of_them() {
    let mut wrong = Vec::new();
    for name in names() {
        let sheet = Sheet::named(name).expect(name);
        let random = sheet.published.random_write_bytes.value;
        let jobs = [
            (Job::SeqRead, 128 << 10),
            (Job::SeqWrite, 128 << 10),
            (Job::RandRead, 4096),
            (Job::RandWrite, random),
        ];
        for (job, block_bytes) in jobs {
            let what = Measure {
                job,
                block_bytes,
                depth: 256,
                seed: 1,
            };
            let report = measure(&sheet, &what).expect(name);
            let said = report.comparison.expect("it is published");
            let line = format!(
                "{name} {job:?}: {} against {}, {:+.1} %, waf {:?}",
                said.measured, said.published, said.off_per_cent, report.waf_device
            );
            println!("{line}");
            if said.off_per_cent.abs() > 5.0 {
                wrong.push(line);
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
