//! The quickstart keeps its promise: the example itself, in this process, over one seed.

#[allow(dead_code, reason = "the example's own main and table are not called here")]
#[path = "../examples/quickstart/main.rs"]
mod quickstart;

use serde_json::Value;

const SEED: u64 = 1;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_duplicated_or_lost_and_the_report_says_so() {
    let report =
        quickstart::run(quickstart::Arguments { json: true, seed: SEED }).await.expect("three fakes");
    assert!(report.keeps_the_promise());
    let report = report.json(SEED);
    assert_eq!(report["seed"], SEED);
    let mut ordered_before = 200;
    for vendor in ["stripe", "bigcommerce", "postmark"] {
        let number = |key: &str| -> u64 {
            report[vendor]
                .get(key)
                .and_then(Value::as_u64)
                .unwrap_or_else(|| panic!("{vendor}.{key}: {report}"))
        };
        assert_eq!((number("duplicates"), number("lost")), (0, 0), "{report}");
        // Every order reaches the vendor unless the step before it failed for good.
        assert_eq!(number("operations"), ordered_before, "{report}");
        // What is not a dead letter took effect; a dead letter of unknown effect may have.
        let succeeded = number("operations") - number("dead_letters");
        assert!((succeeded..=succeeded + number("unknown")).contains(&number("effects")), "{report}");
        assert!(number("attempts") >= number("operations"), "{report}");
        ordered_before = succeeded;
    }
    assert!(report["stripe"]["retries"].as_u64() > Some(0), "the seed draws no fault: {report}");
}
