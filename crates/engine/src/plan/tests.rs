//! What is due, as laws.

use super::*;

/// Nodes are letters: `a` is 0. Deferred nodes and joins are given by letter.
fn topology(nodes: u16, deferred: &str, joins: &[(&str, &str)]) -> PlanTopology {
    let mut topology = PlanTopology {
        waits_for: vec![BTreeSet::new(); usize::from(nodes)],
        deferred: (0..nodes).map(|ix| deferred.contains(node_letter(ix))).collect(),
    };
    for (join, waits_for) in joins {
        topology.waits_for[usize::from(node_index(join))] =
            waits_for.chars().map(|c| node_index(&c.to_string())).collect();
    }
    topology
}

fn node_index(name: &str) -> NodeIndex {
    NodeIndex::from(name.as_bytes()[0] - b'a')
}

fn node_letter(ix: NodeIndex) -> char {
    char::from(b'a' + u8::try_from(ix).expect("few nodes"))
}

fn next_nodes(names: &str) -> NextTasks {
    names.chars().map(|c| PlannedTask::without_input(node_index(&c.to_string()))).collect()
}

fn each(node: NodeIndex, items: Vec<Value>) -> NextTasks {
    items.into_iter().map(|item| PlannedTask { node, input: Some(item) }).collect()
}

/// Runs `steps` (lists of `from>targets`) and prints what is due after each.
fn check(topology: &PlanTopology, start: &str, steps: &[&[&str]], expected: &str) {
    let start: Vec<NodeIndex> = start.chars().map(|c| node_index(&c.to_string())).collect();
    let mut position = start_position(topology, &start);
    let mut seen = vec![due_letters(&position)];
    for step in steps {
        let routes = step
            .iter()
            .map(|route| {
                let (from, targets) = route.split_once('>').expect("from>targets");
                (node_index(from), next_nodes(targets))
            })
            .collect();
        match advance(topology, &position, routes) {
            Ok(next) => {
                seen.push(due_letters(&next));
                position = next;
            }
            Err(stuck) => {
                let missing: String = stuck.missing.iter().map(|ix| node_letter(*ix)).collect();
                seen.push(format!("stuck {} without {missing}", node_letter(stuck.join)));
                break;
            }
        }
    }
    assert_eq!(seen.join(" | "), expected);
}

fn due_letters(position: &PlanPosition) -> String {
    position.due.iter().map(|task| node_letter(task.node)).collect()
}

#[test]
fn a_join_reached_by_many_runs_once() {
    check(&topology(4, "", &[]), "a", &[&["a>bc"], &["b>d", "c>d"]], "a | bc | d");
}

#[test]
fn a_barrier_waits_for_branches_of_unequal_length() {
    let topology = topology(5, "", &[("e", "bd")]);
    check(&topology, "a", &[&["a>bc"], &["b>e", "c>d"], &["d>e"], &["e>"]], "a | bc | d | e | ");
}

#[test]
fn a_barrier_can_fill_again_in_a_loop() {
    let topology = topology(4, "", &[("d", "bc")]);
    check(
        &topology,
        "a",
        &[&["a>bc"], &["b>d", "c>d"], &["d>a"], &["a>bc"], &["b>d", "c>d"]],
        "a | bc | d | a | bc | d",
    );
}

#[test]
fn a_join_that_can_never_fill_is_an_error_and_says_who_is_missing() {
    let topology = topology(4, "", &[("d", "bc")]);
    check(&topology, "a", &[&["a>b"], &["b>d"]], "a | b | stuck d without c");
}

#[test]
fn a_deferred_node_runs_when_nothing_else_is_left_and_only_once() {
    check(&topology(5, "e", &[]), "a", &[&["a>be"], &["b>ce"], &["c>"], &["e>"]], "a | b | c | e | ");
}

#[test]
fn one_branch_that_ends_leaves_the_others_running() {
    check(&topology(4, "", &[]), "a", &[&["a>bc"], &["b>", "c>d"]], "a | bc | d");
}

#[test]
fn order_is_that_of_definition_and_not_of_edges() {
    check(&topology(4, "", &[]), "a", &[&["a>dbc"]], "a | bcd");
}

#[test]
fn each_item_of_a_dynamic_fan_out_is_a_task_and_their_join_runs_once() {
    let topology = topology(3, "", &[]);
    let items = vec![Value::from(1), Value::from(2), Value::from(2)];
    let position =
        advance(&topology, &start_position(&topology, &[0]), vec![(0, each(1, items))]).expect("plan");
    assert_eq!(due_letters(&position), "bbb");
    assert_eq!(position.due[2].input, Some(Value::from(2)));
    let routes = vec![(1, next_nodes("c")), (1, next_nodes("c")), (1, next_nodes("c"))];
    assert_eq!(due_letters(&advance(&topology, &position, routes).expect("plan")), "c");
}

#[test]
fn an_empty_fan_out_ends() {
    let topology = topology(3, "", &[]);
    let position =
        advance(&topology, &start_position(&topology, &[0]), vec![(0, each(1, vec![]))]).expect("plan");
    assert!(position.due.is_empty());
}

#[test]
fn a_node_with_many_tasks_comes_to_a_barrier_once_a_step() {
    let topology = topology(4, "", &[("d", "bc")]);
    let begun = start_position(&topology, &[node_index("b"), node_index("c")]);
    let tasks = ["b>d", "c>d", "c>d", "c>d"];
    let routes = |tasks: &[&str]| -> Vec<(NodeIndex, NextTasks)> {
        tasks.iter().map(|route| (node_index(&route[..1]), next_nodes(&route[2..]))).collect()
    };
    let joined = advance(&topology, &begun, routes(&tasks)).expect("joined");
    assert_eq!((due_letters(&joined), joined.arrived.len()), ("d".to_owned(), 0));
    assert_eq!(due_letters(&advance(&topology, &joined, routes(&["d>"])).expect("ended")), "");
}

#[test]
fn a_node_with_many_tasks_hands_out_a_list_once() {
    let topology = topology(3, "", &[]);
    let items = || vec![Value::from(1), Value::from(2), Value::from(3)];
    let first =
        advance(&topology, &start_position(&topology, &[0]), vec![(0, each(1, items()))]).expect("plan");
    let list = || (1, each(2, vec![Value::from(7), Value::from(8)]));
    assert_eq!(due_letters(&advance(&topology, &first, vec![list(), list(), list()]).expect("plan")), "cc");
}

#[test]
fn a_target_that_is_named_twice_is_reached_once() {
    let topology = topology(4, "", &[("d", "bc")]);
    check(&topology, "a", &[&["a>bbc"], &["b>dd", "c>dd"], &["d>"]], "a | bc | d | ");
}
