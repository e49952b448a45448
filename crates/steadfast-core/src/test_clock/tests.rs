use super::*;

const SECOND: Duration = Duration::from_secs(1);

fn at(seconds: u64) -> Instant {
    Instant::ORIGIN.plus(Duration::from_secs(seconds))
}

#[tokio::test]
async fn a_manual_clock_stands_still_until_it_is_advanced() {
    let clock = TestClock::new();
    let task = tokio::spawn(clock.sleep_until(at(2)));
    clock.until_sleeping(1).await;
    clock.advance(SECOND);
    tokio::task::yield_now().await;
    assert!(!task.is_finished());
    assert_eq!((clock.now(), clock.sleeping()), (at(1), 1));
    clock.advance(SECOND);
    task.await.unwrap();
    assert_eq!((clock.now(), clock.sleeping()), (at(2), 0));
    assert_eq!(clock.slept(), [2 * SECOND]);
}

#[tokio::test]
async fn an_automatic_clock_jumps_to_exactly_the_end_of_a_sleep() {
    let clock = TestClock::auto();
    let odd = Duration::from_nanos(1_234_567_891);
    clock.sleep_until(clock.now().plus(odd)).await;
    clock.sleep_until(clock.now().plus(SECOND)).await;
    clock.sleep_until(clock.now()).await;
    assert_eq!(clock.now().since(Instant::ORIGIN), odd + SECOND);
    assert_eq!(clock.slept(), [odd, SECOND, Duration::ZERO]);
    assert_eq!(clock.wall(), TestClock::START.plus(Duration::from_millis(2_234)));
}

#[tokio::test]
async fn a_limit_that_ends_before_the_sleep_fires_first_and_on_time() {
    let clock = TestClock::auto();
    tokio::select! {
        () = clock.sleep_until(at(10)) => panic!("the limit ends sooner"),
        () = clock.limit_until(at(3)) => {}
    }
    assert_eq!(clock.now(), at(3));
    assert_eq!(clock.0.state.lock().timers.len(), 0, "both are gone");
}

#[tokio::test]
async fn a_limit_alone_never_moves_time() {
    let clock = TestClock::auto();
    let task = tokio::spawn(clock.limit_until(at(1)));
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert!(!task.is_finished());
    assert_eq!(clock.now(), Instant::ORIGIN);
    clock.advance(SECOND);
    task.await.unwrap();
}

#[tokio::test]
async fn work_that_needs_a_few_rounds_comes_before_the_jump() {
    let clock = TestClock::auto();
    tokio::select! {
        () = clock.sleep_until(at(1)) => panic!("the work had only to be let run"),
        () = async { for _ in 0..ROUNDS / 2 { tokio::task::yield_now().await } } => {}
    }
    assert_eq!(clock.now(), Instant::ORIGIN);
}

#[tokio::test]
async fn sleepers_wake_in_the_order_of_their_deadlines() {
    let clock = TestClock::auto();
    let order = Arc::new(Mutex::new(Vec::new()));
    let tasks = [5, 2, 9, 2].map(|seconds| {
        let (clock, order) = (clock.clone(), Arc::clone(&order));
        tokio::spawn(async move {
            clock.sleep_until(at(seconds)).await;
            order.lock().push((seconds, clock.now()));
        })
    });
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(*order.lock(), [(2, at(2)), (2, at(2)), (5, at(5)), (9, at(9))]);
}

#[tokio::test]
async fn a_dropped_sleep_holds_nothing_back() {
    let clock = TestClock::new();
    let task = tokio::spawn(clock.sleep_until(at(1)));
    clock.until_sleeping(1).await;
    task.abort();
    assert!(task.await.unwrap_err().is_cancelled());
    assert_eq!(clock.sleeping(), 0);
}

#[tokio::test]
async fn an_endless_latency_gives_way_to_the_limit() {
    let clock = TestClock::auto();
    tokio::select! {
        () = clock.latency(Duration::MAX) => panic!("it never ends"),
        () = clock.limit_until(at(30)) => {}
    }
    assert_eq!((clock.now(), clock.slept()), (at(30), vec![]));
}

#[tokio::test]
async fn a_limit_that_comes_late_still_ends_an_endless_latency() {
    let clock = TestClock::auto();
    let hanging = tokio::spawn(clock.latency(Duration::MAX));
    clock.until_sleeping(1).await;
    for _ in 0..ROUNDS * 4 {
        tokio::task::yield_now().await;
    }
    assert_eq!(clock.now(), Instant::ORIGIN);
    let limit = tokio::spawn(clock.limit_until(at(30)));
    for _ in 0..ROUNDS * 4 {
        tokio::task::yield_now().await;
    }
    assert!(limit.is_finished());
    assert_eq!(clock.now(), at(30));
    hanging.abort();
}

#[tokio::test]
async fn wall_time_jumps_alone() {
    let clock = TestClock::new();
    clock.advance(SECOND);
    clock.jump_wall(Duration::from_secs(3600));
    assert_eq!(clock.now(), at(1));
    assert_eq!(clock.wall(), TestClock::START.plus(Duration::from_secs(3601)));
    clock.set_wall(Timestamp::from_millis(5));
    clock.advance(SECOND);
    assert_eq!((clock.now(), clock.wall()), (at(2), Timestamp::from_millis(1_005)));
}

#[test]
fn wall_time_starts_where_it_says() {
    assert_eq!(TestClock::new().wall().to_string(), "Thu, 01 Jan 2026 00:00:00 GMT");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_sleepers_on_two_threads_all_wake() {
    let clock = TestClock::auto();
    let tasks: Vec<_> = (0..200)
        .map(|n| {
            let clock = clock.clone();
            tokio::spawn(async move {
                for _ in 0..5 {
                    clock.sleep_until(clock.now().plus(Duration::from_millis(n % 7 + 1))).await;
                }
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!((clock.slept().len(), clock.sleeping()), (1_000, 0));
}

#[tokio::test]
async fn a_step_goes_to_the_earliest_deadline_whoever_waits_for_it() {
    let clock = TestClock::new();
    let (long, short) = (tokio::spawn(clock.sleep_until(at(5))), tokio::spawn(clock.limit_until(at(2))));
    clock.until_sleeping(1).await;
    while clock.0.state.lock().timers.len() < 2 {
        tokio::task::yield_now().await;
    }
    assert!(clock.step());
    assert_eq!(clock.now(), at(2), "a limit counts");
    short.await.unwrap();
    assert!(clock.step());
    assert_eq!(clock.now(), at(5));
    long.await.unwrap();
    assert!(!clock.step(), "nobody waits");
    let endless = tokio::spawn(clock.latency(Duration::MAX));
    clock.until_sleeping(1).await;
    assert!(!clock.step(), "what never comes is no deadline");
    assert_eq!(clock.now(), at(5));
    endless.abort();
}

#[tokio::test]
#[allow(clippy::disallowed_methods, reason = "what a socket takes")]
async fn no_sleep_moves_time_while_an_answer_is_on_a_socket() {
    let clock = TestClock::auto();
    let dispatcher = tokio::spawn({
        let clock = clock.clone();
        async move {
            loop {
                clock.sleep_until(clock.now().plus(SECOND)).await;
            }
        }
    });
    let limit = clock.socket_limit_until(clock.now().plus(30 * SECOND));
    tokio::select! {
        biased;
        () = limit => panic!("the answer is on its way"),
        () = tokio::time::sleep(Duration::from_millis(100)) => {}
    }
    // The other side waits on the clock, and says so.
    let limit = clock.socket_limit_until(clock.now().plus(30 * SECOND));
    tokio::select! {
        () = limit => {}
        () = clock.latency(Duration::MAX) => panic!("the limit is sooner"),
    }
    dispatcher.abort();
}
