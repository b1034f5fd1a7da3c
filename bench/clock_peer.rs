// timely-dataflow's own tracker on the rounds of bench/clock.py, one thread: a line of a name and rounds (or updates) per second for each.
use std::time::Instant;
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

fn measure(name: &str, seconds: f64, mut round: impl FnMut(usize), per: usize) {
    let start = Instant::now();
    let mut done = 0;
    while start.elapsed().as_secs_f64() < seconds {
        for _ in 0..16 {
            round(done);
            done += 1;
        }
    }
    println!("{} {}", name, (done * per) as f64 / start.elapsed().as_secs_f64());
}

fn main() {
    let seconds: f64 = std::env::args().nth(1).map(|s| s.parse().unwrap()).unwrap_or(1.0);
    for (name, nodes, ring) in [("ring-3", 3, true), ("chain-10", 10, false), ("chain-100", 100, false), ("chain-1000", 1000, false)] {
        let mut tracker = chain(nodes, ring);
        tracker.update_source(Source::new(0, 0), 0, 1);
        measure(name, seconds, |t| {
            tracker.update_source(Source::new(0, 0), t + 1, 1);
            tracker.update_source(Source::new(0, 0), t, -1);
            tracker.propagate_all();
            tracker.pushed().0.clear();
        }, 1);
    }
    {
        let mut tracker = chain(3, true);
        tracker.update_source(Source::new(0, 0), 0, 1);
        tracker.propagate_all();
        measure("still", seconds, |_| {
            for k in 0..500 {
                tracker.update_source(Source::new(0, 0), 1 + k, 1);
            }
            for k in 0..500 {
                tracker.update_source(Source::new(0, 0), 1 + k, -1);
            }
            tracker.propagate_all();
        }, 1000);
    }
    {
        let count = 100_000;
        let mut tracker = ports(count);
        for port in 0..count {
            tracker.update_target(Target::new(0, port), 0, 1);
        }
        tracker.propagate_all();
        tracker.pushed().0.clear();
        let mut at = vec![0; count];
        measure("ports-100000", seconds, |r| {
            let port = (r * 7919) % count;
            tracker.update_target(Target::new(0, port), at[port] + 1, 1);
            tracker.update_target(Target::new(0, port), at[port], -1);
            at[port] += 1;
            tracker.propagate_all();
            tracker.pushed().0.clear();
        }, 1);
    }
}
