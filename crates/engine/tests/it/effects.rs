//! Calls to the world through `Cx`: recorded once, keyed alike in every attempt, and never repeated where they must
//! not be.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use doran_engine::QuestionKind;
use doran_engine::store::RunStatus;
use doran_engine::{Cx, Graph, GraphHandle, NodeError, NodeTimeout, Outcome, RetryPolicy, RunHandle};
use serde_json::{Value, json};

use crate::support::{
    CallCounter, EngineTestState, EngineTestStateUpdate, GatedStore, StoreCallDecision, StoreCallGate,
    crash_and_take_over, graph_handle, graph_handle_on, local_thread, ms, node_running, outcome_text,
    ram_store, run_to_text, run_trace, run_with_trace, single_node_graph, update_saying,
    wait_for_outcome_text,
};

/// What the world outside saw: keys of calls, in order.
#[derive(Clone, Debug, Default)]
struct CallKeyRecorder(Arc<Mutex<Vec<String>>>);

impl CallKeyRecorder {
    fn call(&self, key: impl Into<String>) -> usize {
        let mut calls = self.0.lock().expect("no panic");
        calls.push(key.into());
        calls.len()
    }

    fn calls(&self) -> Vec<String> {
        self.0.lock().expect("no panic").clone()
    }
}

/// A node that does `work` and, in its first attempt, stops there for ever; the crash comes then.
fn graph_that_hangs_after<F>(
    attempts: CallCounter,
    work: impl Fn(Cx) -> F + Send + Sync + 'static,
) -> Graph<EngineTestState>
where
    F: Future<Output = Result<String, NodeError>> + Send + 'static,
{
    single_node_graph(
        "a",
        node_running(move |_, cx| {
            let (work, attempts) = (work(cx), attempts.clone());
            async move {
                let word = work.await?;
                if attempts.increment() == 1 {
                    std::future::pending::<()>().await;
                }
                Ok(update_saying(word))
            }
        }),
    )
}

#[tokio::test(start_paused = true)]
async fn a_recorded_call_is_not_made_again_after_a_crash() {
    let (world, attempts) = (CallKeyRecorder::default(), CallCounter::default());
    let seen = world.clone();
    let graph = graph_that_hangs_after(attempts.clone(), move |cx| {
        let seen = seen.clone();
        async move {
            let n: usize = cx.effect("read", async { Ok::<_, NodeError>(seen.call("read")) }).await?;
            let m: usize =
                cx.idempotent_effect("write", |key| async { Ok::<_, NodeError>(seen.call(key)) }).await?;
            let o: usize =
                cx.effect_at_most_once("pay", |key| async { Ok::<_, NodeError>(seen.call(key)) }).await?;
            Ok(format!("{n} {m} {o}"))
        }
    });
    let (bot, run) =
        crash_and_take_over(&ram_store(), &graph, EngineTestState::update(), || attempts.count() == 1).await;
    assert_eq!(wait_for_outcome_text(&bot, &run).await, "1 2 3");
    assert_eq!(world.calls().len(), 3);
    assert_eq!(attempts.count(), 2, "the node itself ran again");
}

/// Counts commits.
struct CommitCountingGate(CallCounter);

#[async_trait::async_trait]
impl StoreCallGate for CommitCountingGate {
    async fn decide(&self, call: &'static str) -> StoreCallDecision {
        if call == "commit" {
            self.0.increment();
        }
        StoreCallDecision::Pass
    }
}

#[tokio::test(start_paused = true)]
async fn a_closing_call_is_recorded_before_the_next_call_and_costs_no_write_when_there_is_none() {
    let (world, attempts) = (CallKeyRecorder::default(), CallCounter::default());
    let (seen, counted) = (world.clone(), attempts.clone());
    // The first attempt stops in the middle of the second call.
    let graph = single_node_graph(
        "a",
        node_running(move |_, cx: Cx| {
            let (seen, nth) = (seen.clone(), counted.increment());
            async move {
                let reply: usize =
                    cx.closing_effect("model", async { Ok::<_, NodeError>(seen.call("model")) }).await?;
                let tool = async {
                    seen.call("tool");
                    if nth == 1 {
                        std::future::pending::<()>().await;
                    }
                    Ok::<_, NodeError>(())
                };
                cx.effect("tool", tool).await?;
                let last: usize =
                    cx.closing_effect("model", async { Ok::<_, NodeError>(seen.call("last")) }).await?;
                Ok(update_saying(format!("{reply} {last}")))
            }
        }),
    );
    let stopped = world.clone();
    let store = ram_store();
    let (bot, handle) =
        crash_and_take_over(&store, &graph, EngineTestState::update(), || stopped.calls().len() == 2).await;
    assert_eq!(wait_for_outcome_text(&bot, &handle).await, "1 4");
    assert_eq!(world.calls(), ["model", "tool", "tool", "last"]);

    let alone = single_node_graph(
        "a",
        node_running(|_, cx: Cx| async move {
            let word: String = cx.closing_effect("model", async { Ok::<_, NodeError>("hi".into()) }).await?;
            Ok(update_saying(word))
        }),
    );
    let commits = CallCounter::default();
    let store = GatedStore { inner: ram_store(), gate: Arc::new(CommitCountingGate(commits.clone())) };
    assert_eq!(run_to_text(&graph_handle_on(Arc::new(store), &alone), EngineTestState::update()).await, "hi");
    assert_eq!(commits.count(), 1, "the step, and nothing before it");
}

#[tokio::test(start_paused = true)]
async fn a_closing_call_of_a_node_that_fails_is_not_made_again_by_a_retry() {
    let (world, attempts) = (CallKeyRecorder::default(), CallCounter::default());
    let (seen, counted) = (world.clone(), attempts.clone());
    let graph = single_node_graph(
        "a",
        node_running(move |_, cx: Cx| {
            let (seen, nth) = (seen.clone(), counted.increment());
            async move {
                let reply: usize =
                    cx.closing_effect("model", async { Ok::<_, NodeError>(seen.call("model")) }).await?;
                if nth == 1 {
                    return Err(NodeError::permanent("the reply cannot be used"));
                }
                Ok(update_saying(reply.to_string()))
            }
        }),
    );
    let store = ram_store();
    let first = graph_handle_on(Arc::new(store.clone()), &graph);
    let handle = first.start(&local_thread("t"), EngineTestState::update()).await.expect("started");
    assert_eq!(
        wait_for_outcome_text(&first, &handle).await,
        "node_failed: node `a`: the reply cannot be used"
    );
    first.runtime().shutdown(ms(0)).await;
    // Another process, which knows only what is stored.
    let second = graph_handle_on(Arc::new(store), &graph);
    let again = second.runtime().retry(&handle.key()).await.expect("tried again");
    assert_eq!(wait_for_outcome_text(&second, &again).await, "1");
    assert_eq!(world.calls(), ["model"]);
}

#[tokio::test(start_paused = true)]
async fn a_closing_call_beside_another_is_not_made_again_after_a_crash() {
    let (world, attempts) = (CallKeyRecorder::default(), CallCounter::default());
    let (seen, counted) = (world.clone(), attempts.clone());
    let graph = single_node_graph(
        "a",
        node_running(move |_, cx: Cx| {
            let (seen, nth) = (seen.clone(), counted.increment());
            async move {
                let quick = cx.closing_effect("quick", async { Ok::<_, NodeError>(seen.call("quick")) });
                let slow = cx.closing_effect("slow", async {
                    seen.call("slow");
                    if nth == 1 {
                        std::future::pending::<()>().await;
                    }
                    Ok::<_, NodeError>(0)
                });
                let (slow, quick): (Result<usize, _>, Result<usize, _>) = tokio::join!(slow, quick);
                slow?;
                quick?;
                Ok(update_saying("both"))
            }
        }),
    );
    let stopped = world.clone();
    let (bot, run) =
        crash_and_take_over(&ram_store(), &graph, EngineTestState::update(), || stopped.calls().len() == 2)
            .await;
    assert_eq!(wait_for_outcome_text(&bot, &run).await, "both");
    assert_eq!(world.calls(), ["slow", "quick", "slow"]);
}

#[tokio::test(start_paused = true)]
async fn a_closing_call_of_a_node_that_asks_is_not_made_again() {
    let world = CallKeyRecorder::default();
    let seen = world.clone();
    let graph = single_node_graph(
        "a",
        node_running(move |_, cx: Cx| {
            let seen = seen.clone();
            async move {
                let n: usize =
                    cx.closing_effect("model", async { Ok::<_, NodeError>(seen.call("model")) }).await?;
                let word: String = cx.ask(json!({ "n": n })).await?;
                Ok(update_saying(word))
            }
        }),
    );
    let bot = graph_handle(&graph);
    assert_eq!(run_to_text(&bot, EngineTestState::update()).await, "0.0:ask#0 asks {\"n\":1}");
    assert_eq!(outcome_text(bot.resume(&local_thread("t"), "yes").await), "yes");
    assert_eq!(world.calls(), ["model"]);
}

#[tokio::test(start_paused = true)]
async fn time_random_numbers_and_ids_are_the_same_after_a_crash() {
    let (said, attempts) = (CallKeyRecorder::default(), CallCounter::default());
    let seen = said.clone();
    let graph = graph_that_hangs_after(attempts.clone(), move |cx| {
        let seen = seen.clone();
        async move {
            let all =
                format!("{:?} {} {} {:?} {}", cx.now()?, cx.random(), cx.new_id(), cx.now()?, cx.random());
            std::thread::sleep(ms(3));
            // Something recorded takes what was drawn before it along.
            cx.effect("flush", async { Ok::<_, NodeError>(()) }).await?;
            seen.call(all.clone());
            Ok(all)
        }
    });
    let (bot, run) =
        crash_and_take_over(&ram_store(), &graph, EngineTestState::update(), || attempts.count() == 1).await;
    let end = wait_for_outcome_text(&bot, &run).await;
    assert_eq!(said.calls(), [end.clone(), end.clone()]);
    let (other, _) = run_with_trace(&graph).await;
    assert_ne!(other, end, "another run draws others");
}

#[tokio::test(start_paused = true)]
async fn every_attempt_of_an_idempotent_call_carries_the_same_key() {
    let (world, attempts) = (CallKeyRecorder::default(), CallCounter::default());
    let (seen, counted) = (world.clone(), attempts.clone());
    // Fails twice before the crash and hangs in the third try; after the crash it succeeds.
    let graph = single_node_graph(
        "a",
        node_running(move |_, cx: Cx| {
            let (seen, nth) = (seen.clone(), counted.increment());
            async move {
                let done: String = cx
                    .idempotent_effect("write", |key| async move {
                        seen.call(key.clone());
                        match nth {
                            1 | 2 => Err(NodeError::transient("reset")),
                            3 => std::future::pending().await,
                            _ => Ok(key),
                        }
                    })
                    .await?;
                Ok(update_saying(done))
            }
        }),
    );
    let (bot, run) =
        crash_and_take_over(&ram_store(), &graph, EngineTestState::update(), || attempts.count() == 3).await;
    let key = wait_for_outcome_text(&bot, &run).await;
    assert_eq!(world.calls(), vec![key; 4]);
}

#[tokio::test]
async fn two_calls_of_one_name_have_keys_of_their_own() {
    let world = CallKeyRecorder::default();
    let seen = world.clone();
    let graph = single_node_graph(
        "a",
        node_running(move |_, cx: Cx| {
            let seen = seen.clone();
            async move {
                for _ in 0..2 {
                    let seen = seen.clone();
                    cx.idempotent_effect("write", |key| async move { Ok::<_, NodeError>(seen.call(key)) })
                        .await?;
                }
                cx.idempotent_effect("other", |key| async move { Ok::<_, NodeError>(seen.call(key)) })
                    .await?;
                Ok(update_saying("done"))
            }
        }),
    );
    run_with_trace(&graph).await;
    let calls = world.calls();
    assert_eq!(calls.iter().collect::<std::collections::BTreeSet<_>>().len(), 3, "{calls:?}");
}

/// A node that pays once. In attempt `n` the call to the world does what `acts[n - 1]` says.
fn payment_graph(
    world: CallKeyRecorder,
    attempts: CallCounter,
    acts: &'static [&'static str],
) -> Graph<EngineTestState> {
    let node = node_running(move |_, cx: Cx| {
        let (world, attempts) = (world.clone(), attempts.clone());
        async move {
            let paid: String = cx
                .effect_at_most_once("pay", |key| async move {
                    let act = acts.get(attempts.increment() as usize - 1).copied().unwrap_or("ok");
                    world.call(key);
                    match act {
                        "hang" => std::future::pending().await,
                        "transient" => Err(NodeError::transient("connection reset")),
                        "error" => Err(std::io::Error::from(std::io::ErrorKind::BrokenPipe).into()),
                        "not done" => Err(NodeError::not_done("card refused")),
                        _ => Ok("paid".to_owned()),
                    }
                })
                .await?;
            Ok(update_saying(paid))
        }
    });
    single_node_graph("a", node.timeout(NodeTimeout::total(ms(60_000))))
}

async fn answer_first_question(bot: &GraphHandle<EngineTestState>, run: &RunHandle, answer: Value) -> String {
    let questions = bot.runtime().open_questions(&local_thread("t")).await.expect("questions");
    let answers = BTreeMap::from([(questions[0].1.id.clone(), answer)]);
    let run = bot.runtime().answer(&run.key(), &answers).await.expect("taken");
    wait_for_outcome_text(bot, &run).await
}

#[tokio::test(start_paused = true)]
async fn a_crash_in_the_middle_of_a_once_call_pauses_instead_of_repeating_it() {
    let (world, attempts) = (CallKeyRecorder::default(), CallCounter::default());
    let graph = payment_graph(world.clone(), attempts.clone(), &["hang"]);
    let (bot, run) =
        crash_and_take_over(&ram_store(), &graph, EngineTestState::update(), || attempts.count() == 1).await;
    let Ok(Outcome::Paused(asks)) = bot.wait_for_outcome(&run).await else { panic!("not paused") };
    assert_eq!(asks[0].kind, QuestionKind::EffectUnknown);
    assert_eq!(asks[0].question["call"], "pay");
    assert_eq!(asks[0].question["key"], world.calls()[0], "the key tells which call it was");
    assert_eq!(answer_first_question(&bot, &run, json!({ "result": "paid by hand" })).await, "paid by hand");
    assert_eq!(world.calls().len(), 1);
    assert_eq!(
        run_trace(bot.runtime(), &run.key()).await,
        "started | restarted | paused by a | resumed | a | finished"
    );
}

#[tokio::test(start_paused = true)]
async fn a_once_call_that_did_not_happen_is_made_when_somebody_says_so() {
    let (world, attempts) = (CallKeyRecorder::default(), CallCounter::default());
    let graph = payment_graph(world.clone(), attempts.clone(), &["hang"]);
    let (bot, run) =
        crash_and_take_over(&ram_store(), &graph, EngineTestState::update(), || attempts.count() == 1).await;
    wait_for_outcome_text(&bot, &run).await;
    assert_eq!(answer_first_question(&bot, &run, json!({ "retry": true })).await, "paid");
    let calls = world.calls();
    assert_eq!(calls.len(), 2);
    assert_ne!(calls[0], calls[1], "a call made anew has a key of its own");
}

#[tokio::test(start_paused = true)]
async fn a_question_with_a_useless_answer_is_asked_again_with_the_reason() {
    let (world, attempts) = (CallKeyRecorder::default(), CallCounter::default());
    let graph = payment_graph(world.clone(), attempts.clone(), &["hang"]);
    let (bot, run) =
        crash_and_take_over(&ram_store(), &graph, EngineTestState::update(), || attempts.count() == 1).await;
    wait_for_outcome_text(&bot, &run).await;
    for nonsense in [json!("yes"), json!({}), json!({ "retry": false }), json!({ "typo": 1 })] {
        let end = answer_first_question(&bot, &run, nonsense.clone()).await;
        assert!(end.contains("asks"), "{nonsense}: {end}");
        let questions = bot.runtime().open_questions(&local_thread("t")).await.expect("questions");
        assert!(questions[0].1.problem.as_deref().is_some_and(|why| why.contains("retry")), "{nonsense}");
    }
    assert_eq!(answer_first_question(&bot, &run, json!({ "result": "paid" })).await, "paid");
    assert_eq!(world.calls().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_timeout_or_any_error_of_a_once_call_leaves_it_open_too() {
    for act in [&["hang"], &["transient"], &["error"]] {
        let (world, attempts) = (CallKeyRecorder::default(), CallCounter::default());
        let bot = graph_handle(&payment_graph(world.clone(), attempts, act));
        let handle = bot.start(&local_thread("t"), EngineTestState::update()).await.expect("started");
        let Ok(Outcome::Paused(asks)) = bot.wait_for_outcome(&handle).await else {
            panic!("{act:?}: not paused")
        };
        assert_eq!(asks[0].kind, QuestionKind::EffectUnknown, "{act:?}");
        assert_eq!(world.calls().len(), 1, "{act:?}");
        assert_eq!(answer_first_question(&bot, &handle, json!({ "result": "paid" })).await, "paid");
        assert_eq!(world.calls().len(), 1, "{act:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_once_call_that_says_it_did_not_happen_fails_the_run_and_may_be_made_by_a_retry() {
    let (world, attempts) = (CallKeyRecorder::default(), CallCounter::default());
    let bot = graph_handle(&payment_graph(world.clone(), attempts, &["not done"]));
    let handle = bot.start(&local_thread("t"), EngineTestState::update()).await.expect("started");
    assert_eq!(wait_for_outcome_text(&bot, &handle).await, "node_failed: node `a`: card refused");
    let again = bot.runtime().retry(&handle.key()).await.expect("tried again");
    assert_eq!(wait_for_outcome_text(&bot, &again).await, "paid");
    let calls = world.calls();
    assert_eq!(calls.len(), 2);
    assert_ne!(calls[0], calls[1], "a call made anew has a key of its own");
}

#[tokio::test(start_paused = true)]
async fn a_once_call_side_by_side_with_a_crash_of_a_sibling_stays_done() {
    let (world, attempts) = (CallKeyRecorder::default(), CallCounter::default());
    let (seen, counted) = (world.clone(), attempts.clone());
    let graph = Graph::named()
        .node(
            "pay",
            node_running(move |_, cx: Cx| {
                let seen = seen.clone();
                async move {
                    let n: usize = cx
                        .effect_at_most_once("pay", |key| async move { Ok::<_, NodeError>(seen.call(key)) })
                        .await?;
                    Ok(update_saying(format!("paid {n}")))
                }
            })
            .end(),
        )
        .node(
            "slow",
            node_running(move |_, _| {
                let nth = counted.increment();
                async move {
                    tokio::time::sleep(ms(20)).await;
                    if nth == 1 {
                        std::future::pending::<()>().await;
                    }
                    Ok(update_saying("slow"))
                }
            })
            .end(),
        )
        .start("pay")
        .start("slow")
        .build()
        .expect("sound");
    let seen = world.clone();
    let (bot, run) = crash_and_take_over(&ram_store(), &graph, EngineTestState::update(), || {
        attempts.count() == 1 && seen.calls().len() == 1
    })
    .await;
    assert_eq!(wait_for_outcome_text(&bot, &run).await, "paid 1 slow");
    assert_eq!((world.calls().len(), attempts.count()), (1, 2));
}

#[tokio::test(start_paused = true)]
async fn calls_made_side_by_side_keep_their_keys_in_any_order() {
    let (world, attempts) = (CallKeyRecorder::default(), CallCounter::default());
    let (seen, counted) = (world.clone(), attempts.clone());
    let graph = single_node_graph(
        "a",
        node_running(move |_, cx: Cx| {
            let (seen, nth) = (seen.clone(), counted.increment());
            async move {
                let call = |item: u64| {
                    let seen = seen.clone();
                    // The first attempt finishes them in one order, the second would in the other.
                    let wait = if nth == 1 { 10 * item } else { 100 - 10 * item };
                    cx.effect("fetch", async move {
                        tokio::time::sleep(ms(wait)).await;
                        if nth == 1 && item == 3 {
                            std::future::pending::<()>().await;
                        }
                        seen.call(item.to_string());
                        Ok::<_, NodeError>(item)
                    })
                };
                let (one, two, three) = (call(1), call(2), call(3));
                let (three, two, one) = tokio::try_join!(three, two, one)?;
                Ok(update_saying(format!("{one} {two} {three}")))
            }
        }),
    );
    let seen = world.clone();
    let (bot, run) =
        crash_and_take_over(&ram_store(), &graph, EngineTestState::update(), || seen.calls().len() == 2)
            .await;
    assert_eq!(wait_for_outcome_text(&bot, &run).await, "1 2 3");
    assert_eq!(world.calls(), ["1", "2", "3"], "the two that were recorded are not made again");
}

#[tokio::test(start_paused = true)]
async fn trying_a_node_again_does_not_repeat_its_recorded_calls() {
    let (world, tries) = (CallKeyRecorder::default(), CallCounter::default());
    let (seen, counted) = (world.clone(), tries.clone());
    let graph = single_node_graph(
        "a",
        node_running(move |_, cx: Cx| {
            let (seen, nth) = (seen.clone(), counted.increment());
            async move {
                let n: usize = cx.effect("read", async { Ok::<_, NodeError>(seen.call("read")) }).await?;
                let m: usize =
                    cx.effect_at_most_once("pay", |key| async { Ok::<_, NodeError>(seen.call(key)) }).await?;
                if nth < 3 {
                    return Err(NodeError::transient("later"));
                }
                Ok(update_saying(format!("{n} {m} attempt {}", cx.attempt())))
            }
        })
        .retry(RetryPolicy::times(3)),
    );
    assert_eq!(run_with_trace(&graph).await.0, "1 2 attempt 3");
    assert_eq!(world.calls().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_failed_call_that_may_be_repeated_is_repeated() {
    let calls = CallCounter::default();
    let counted = calls.clone();
    let graph = single_node_graph(
        "a",
        node_running(move |_, cx: Cx| {
            let counted = counted.clone();
            async move {
                let n: u32 = cx
                    .effect("read", async move {
                        match counted.increment() {
                            1 => Err(NodeError::transient("reset")),
                            n => Ok(n),
                        }
                    })
                    .await?;
                Ok(update_saying(n.to_string()))
            }
        }),
    );
    assert_eq!(run_with_trace(&graph).await.0, "2");
}

#[tokio::test]
async fn a_result_that_no_longer_fits_its_type_is_an_error_and_not_a_second_call() {
    let world = CallKeyRecorder::default();
    let graph = |seen: CallKeyRecorder, typed: bool| {
        single_node_graph(
            "a",
            node_running(move |_, cx: Cx| {
                let seen = seen.clone();
                async move {
                    let update: EngineTestStateUpdate = if typed {
                        let word: String = cx
                            .effect("read", async { Ok::<_, NodeError>(format!("n{}", seen.call("read"))) })
                            .await?;
                        update_saying(word)
                    } else {
                        let n: usize =
                            cx.effect("read", async { Ok::<_, NodeError>(seen.call("read")) }).await?;
                        update_saying(n.to_string())
                    };
                    cx.ask::<bool, _>("on?").await?;
                    Ok(update)
                }
            }),
        )
    };
    let store = Arc::new(ram_store());
    let first = crate::support::graph_handle_on(store.clone(), &graph(world.clone(), false));
    run_to_text(&first, EngineTestState::update()).await;
    let second = crate::support::graph_handle_on(store, &graph(world.clone(), true));
    let end = outcome_text(second.resume(&local_thread("t"), true).await);
    assert!(end.starts_with("node_failed: node `a`: invalid type: integer `1`, expected a string"), "{end}");
    assert_eq!(world.calls().len(), 1);
    let filter = doran_engine::store::RunFilter { status: Some(RunStatus::Failed), ..Default::default() };
    let failed = second.runtime().store().runs(&local_thread("t").tenant, &filter).await.expect("runs");
    assert_eq!(failed.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_outcome_of_the_wrong_type_is_asked_for_again_and_null_is_an_outcome() {
    let attempts = CallCounter::default();
    let counted = attempts.clone();
    let graph = single_node_graph(
        "a",
        node_running(move |_, cx: Cx| {
            let attempts = counted.clone();
            async move {
                let made = |_| async move {
                    if attempts.increment() == 1 {
                        std::future::pending::<()>().await;
                    }
                    Ok::<_, NodeError>(())
                };
                cx.effect_at_most_once("mail", made).await?;
                Ok(update_saying("sent"))
            }
        }),
    );
    let (bot, run) =
        crash_and_take_over(&ram_store(), &graph, EngineTestState::update(), || attempts.count() == 1).await;
    wait_for_outcome_text(&bot, &run).await;
    assert!(answer_first_question(&bot, &run, json!({ "result": 5 })).await.contains("asks"));
    let questions = bot.runtime().open_questions(&local_thread("t")).await.expect("questions");
    assert_eq!(
        questions[0].1.problem.as_deref(),
        Some("the result does not fit: invalid type: integer `5`, expected unit")
    );
    assert_eq!(answer_first_question(&bot, &run, json!({ "result": null })).await, "sent");
    assert_eq!(attempts.count(), 1, "it was not made again");
}

#[tokio::test]
async fn a_result_that_does_not_read_back_fails_at_once_and_not_after_the_next_crash() {
    let graph = single_node_graph(
        "a",
        node_running(|_, cx: Cx| async move {
            let share: f64 = cx.effect("share", async { Ok::<_, NodeError>(f64::NAN) }).await?;
            Ok(update_saying(share.to_string()))
        }),
    );
    let (end, _) = run_with_trace(&graph).await;
    assert!(end.starts_with("not_storable: node `a`: the result cannot be stored"), "{end}");
}
