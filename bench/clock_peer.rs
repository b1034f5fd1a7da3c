// timely-dataflow's own tracker on the rounds of bench/clock.py: `peer NAME ROUNDS` does so many, and whoever calls it measures.
use timely::progress::frontier::Antichain;
use timely::progress::reachability::{Builder, Tracker};
use timely::progress::{Source, Target};

fn chain(nodes: usize, ring: bool) -> Tracker<usize> {
    let mut builder = Builder::<usize>::new();
    for node in 0..nodes {
        let by = if ring && node + 1 == nodes { 1 } else { 0 };
        builder.add_node(node, 1, 1, vec![[(0, Antichain::from_elem(by))].into_iter().collect()]);
    }
    for node in 0..nodes {
        if ring || node + 1 < nodes {
            builder.add_edge(Source::new(node, 0), Target::new((node + 1) % nodes, 0));
        }
    }
    builder.build(None).0
}

fn ports(count: usize) -> Tracker<usize> {
    let mut builder = Builder::<usize>::new();
    let ways = (0..count).map(|i| [(i, Antichain::from_elem(0))].into_iter().collect()).collect();
    builder.add_node(0, count, count, ways);
    builder.build(None).0
}

fn main() {
    let args: Vec<String> = std::env::args().collect();
    let rounds: usize = args[2].parse().unwrap();
    let (kind, size) = args[1].split_once('-').unwrap();
    let size: usize = size.parse().unwrap();
    match kind {
        "ring" | "chain" => {
            let mut tracker = chain(size, kind == "ring");
            tracker.update_source(Source::new(0, 0), 0, 1);
            for t in 0..rounds {
                tracker.update_source(Source::new(0, 0), t + 1, 1);
                tracker.update_source(Source::new(0, 0), t, -1);
                tracker.propagate_all();
                tracker.pushed().0.clear();
            }
        }
        "still" => {
            let mut tracker = chain(3, true);
            tracker.update_source(Source::new(0, 0), 0, 1);
            tracker.propagate_all();
            for _ in 0..rounds {
                for k in 0..size {
                    tracker.update_source(Source::new(0, 0), 1 + k, 1);
                }
                for k in 0..size {
                    tracker.update_source(Source::new(0, 0), 1 + k, -1);
                }
                tracker.propagate_all();
            }
        }
        _ => {
            let mut tracker = ports(size);
            for port in 0..size {
                tracker.update_target(Target::new(0, port), 0, 1);
            }
            tracker.propagate_all();
            tracker.pushed().0.clear();
            let mut at = vec![0; size];
            for r in 0..rounds {
                let port = (r * 7919) % size;
                tracker.update_target(Target::new(0, port), at[port] + 1, 1);
                tracker.update_target(Target::new(0, port), at[port], -1);
                at[port] += 1;
                tracker.propagate_all();
                tracker.pushed().0.clear();
            }
        }
    }
}
