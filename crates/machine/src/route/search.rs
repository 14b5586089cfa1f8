//! Local search: a tour is improved until no move helps, then disturbed in a small place and improved again, over and
//! over; a worse tour is mostly given up. Moves: 2-opt (reverse a stretch), 3-opt without reversal (exchange two
//! stretches) and Or-opt (carry a few CPUs elsewhere, reversed). Only the nearest neighbours of a CPU are tried as its
//! new neighbours, and only around what has changed.

use super::Cost;
use fastrand::Rng;

/// Nearest neighbours tried for each CPU.
const NEAR: usize = 10;
/// The most CPUs that a move of Or-opt carries.
const CARRIED: usize = 3;
/// Moves looked at for each CPU. On a slow core a matrix of 256 CPUs takes about a second.
const WORK: u64 = 240_000;
/// CPUs beyond these get no more work: the trip through more is less good.
const WORTH: usize = 512;

/// A tour, and what the moves need to know about it.
#[derive(Clone)]
struct Tour {
    order: Vec<usize>,
    /// Where in the order each CPU is.
    position: Vec<usize>,
    length: i64,
}

/// A search under way.
pub struct Search<'a> {
    cost: &'a Cost,
    tour: Tour,
    /// The nearest CPUs from each, and to each.
    near_from: Vec<usize>,
    near_to: Vec<usize>,
    near: usize,
    /// How much longer a stretch is in the other direction: the sum over all links before a position.
    turned: Vec<i64>,
    /// CPUs around which the tour has changed.
    changed: Vec<usize>,
    is_changed: Vec<bool>,
    work: u64,
    random: Rng,
}

impl<'a> Search<'a> {
    /// A search that begins with the greedy tour.
    pub fn new(cost: &'a Cost) -> Self {
        let side = cost.side;
        let near = NEAR.min(side - 1);
        let nearest = |latency: &dyn Fn(usize, usize) -> i64| -> Vec<usize> {
            let of = |cpu: usize| {
                let mut others: Vec<usize> = (0..side).filter(|other| *other != cpu).collect();
                others.sort_by_key(|other| latency(cpu, *other));
                others.truncate(near);
                others
            };
            (0..side).flat_map(of).collect()
        };
        Self {
            cost,
            tour: greedy(cost),
            near_from: nearest(&|cpu, other| cost.of(cpu, other)),
            near_to: nearest(&|cpu, other| cost.of(other, cpu)),
            near,
            turned: vec![0; if cost.symmetric { 0 } else { side }],
            changed: Vec::new(),
            is_changed: vec![false; side],
            work: 0,
            random: Rng::with_seed(1),
        }
    }

    /// The best tour found.
    pub fn run(mut self) -> Vec<usize> {
        self.turn_sums(0);
        (0..self.cost.side).for_each(|cpu| self.mark(cpu));
        self.improve();
        let mut kept = self.tour.clone();
        let mut best = kept.clone();
        let enough = WORK * self.cost.side.min(WORTH) as u64;
        while self.work < enough {
            self.disturb();
            self.improve();
            if self.tour.length < best.length {
                best.clone_from(&self.tour);
            }
            // Now and then a slightly worse tour is kept: it may lead out of a dead end.
            let patience = 1.0 - self.work as f64 / enough as f64;
            let allowed = best.length / 3000;
            let worse = (allowed as f64 * patience * self.random.f64()) as i64;
            if self.tour.length <= kept.length || self.tour.length <= best.length + worse {
                kept.clone_from(&self.tour);
            } else {
                self.tour.clone_from(&kept);
                self.turn_sums(0);
            }
            self.work += self.cost.side as u64 / 8;
        }
        best.order
    }

    fn mark(&mut self, cpu: usize) {
        if !std::mem::replace(&mut self.is_changed[cpu], true) {
            self.changed.push(cpu);
        }
    }

    /// Exchanges the first and the last of three short neighbouring stretches, a change that no single move undoes.
    fn disturb(&mut self) {
        let side = self.cost.side;
        let longest = (side / 4).clamp(1, 50);
        let [a, b, c] = std::array::from_fn(|_| self.random.usize(1..=longest));
        let start = self.random.usize(0..side - (a + b + c));
        let before = self.ends([start, start + a, start + a + b, start + a + b + c]);
        let stretches = &mut self.tour.order[start + 1..=start + a + b + c];
        stretches.reverse();
        for stretch in [0..c, c..c + b, c + b..c + b + a] {
            stretches[stretch].reverse();
        }
        let after = self.ends([start, start + c, start + c + b, start + a + b + c]);
        self.tour.length += after - before;
        self.renumber(start + 1, start + a + b + c);
        for at in [start, start + c, start + c + b, start + a + b + c] {
            self.mark(self.tour.order[at]);
            self.mark(self.at(at + 1));
        }
    }

    /// The sum of the links behind these positions.
    fn ends<const N: usize>(&self, positions: [usize; N]) -> i64 {
        positions.map(|at| self.cost.of(self.tour.order[at], self.at(at + 1))).iter().sum()
    }

    /// The CPU at a position, which may be one beyond the last.
    #[inline(always)]
    fn at(&self, position: usize) -> usize {
        let side = self.cost.side;
        self.tour.order[if position >= side { position - side } else { position }]
    }

    #[inline(always)]
    fn next(&self, cpu: usize) -> usize {
        self.at(self.tour.position[cpu] + 1)
    }

    #[inline(always)]
    fn previous(&self, cpu: usize) -> usize {
        self.at(self.tour.position[cpu] + self.cost.side - 1)
    }

    /// Notes the new positions of what lies there now.
    fn renumber(&mut self, first: usize, last: usize) {
        for at in first..=last {
            self.tour.position[self.tour.order[at]] = at;
        }
        self.turn_sums(first.saturating_sub(1));
    }

    fn turn_sums(&mut self, from: usize) {
        for at in from + 1..self.turned.len() {
            let (before, here) = (self.tour.order[at - 1], self.tour.order[at]);
            self.turned[at] = self.turned[at - 1] + self.cost.of(here, before) - self.cost.of(before, here);
        }
    }

    /// How much longer the stretch between two positions is in the other direction.
    #[inline(always)]
    fn turning(&self, first: usize, last: usize) -> i64 {
        if self.cost.symmetric {
            0
        } else {
            self.turned[last] - self.turned[first]
        }
    }

    /// Makes moves until none around what has changed helps.
    fn improve(&mut self) {
        while let Some(cpu) = self.changed.pop() {
            self.is_changed[cpu] = false;
            while self.reverse(cpu) || self.exchange(cpu) || self.carry(cpu) {}
        }
    }

    /// 2-opt: makes another CPU the next one (or the one before) by reversing what lies between.
    fn reverse(&mut self, a: usize) -> bool {
        let (next, previous) = (self.next(a), self.previous(a));
        let (link, link_before) = (self.cost.of(a, next), self.cost.of(previous, a));
        for index in 0..self.near {
            let b = self.near_from[a * self.near + index];
            let new = self.cost.of(a, b);
            if new >= link {
                break;
            }
            // a next .. b after  ->  a b .. next after
            let (at, to) = (self.tour.position[a], self.tour.position[b]);
            if self.try_reverse(at.min(to), at.max(to)) {
                return true;
            }
        }
        for index in 0..self.near {
            let b = self.near_to[a * self.near + index];
            if self.cost.of(b, a) >= link_before {
                break;
            }
            let before = |cpu: usize| (self.tour.position[cpu] + self.cost.side - 1) % self.cost.side;
            let (at, to) = (before(a), before(b));
            if self.try_reverse(at.min(to), at.max(to)) {
                return true;
            }
        }
        false
    }

    /// Reverses what lies behind one position up to another if that helps.
    fn try_reverse(&mut self, first: usize, last: usize) -> bool {
        self.work += 1;
        if first == last {
            return false;
        }
        let (a, b, c, d) = (self.tour.order[first], self.at(first + 1), self.tour.order[last], self.at(last + 1));
        let cost = self.cost;
        let change = cost.of(a, c) + cost.of(b, d) - cost.of(a, b) - cost.of(c, d) + self.turning(first + 1, last);
        if change >= 0 {
            return false;
        }
        self.tour.length += change;
        self.tour.order[first + 1..=last].reverse();
        self.renumber(first + 1, last);
        [a, b, c, d].into_iter().for_each(|cpu| self.mark(cpu));
        true
    }

    /// 3-opt without reversal: with links a-a', b-b', c-c' in this order, a goes on to b', c to a' and b to c'.
    fn exchange(&mut self, a: usize) -> bool {
        let (cost, near) = (self.cost, self.near);
        let (side, a2) = (cost.side, self.next(a));
        let link = cost.of(a, a2);
        let origin = self.tour.position[a];
        let after = |cpu: usize| {
            let position = self.tour.position[cpu];
            if position < origin {
                position + side - origin
            } else {
                position - origin
            }
        };
        let mut found = None;
        'all: for index in 0..near {
            let b2 = self.near_from[a * near + index];
            let saved = link - cost.of(a, b2);
            if saved <= 0 {
                break;
            }
            let b = self.previous(b2);
            if b == a {
                continue;
            }
            let (to_b, saved) = (after(b), saved + cost.of(b, b2));
            for index in 0..near {
                let c2 = self.near_from[b * near + index];
                self.work += 1;
                if cost.of(b, c2) >= saved {
                    break;
                }
                let c = self.previous(c2);
                if after(c) > to_b && cost.of(b, c2) + cost.of(c, a2) < saved + cost.of(c, c2) {
                    found = Some((b, c));
                    break 'all;
                }
            }
            for index in 0..near {
                let c = self.near_to[a2 * near + index];
                self.work += 1;
                if cost.of(c, a2) >= saved {
                    break;
                }
                let c2 = self.next(c);
                if after(c) > to_b && cost.of(b, c2) + cost.of(c, a2) < saved + cost.of(c, c2) {
                    found = Some((b, c));
                    break 'all;
                }
            }
        }
        let Some((b, c)) = found else { return false };
        let mut links = [a, b, c].map(|cpu| self.tour.position[cpu]);
        links.sort_unstable();
        let [first, middle, last] = links;
        let before = self.ends(links);
        self.tour.order[first + 1..=last].rotate_left(middle - first);
        let length = last - middle;
        let after = self.ends([first, first + length, last]);
        self.tour.length += after - before;
        self.renumber(first + 1, last);
        for at in [first, first + length, last] {
            self.mark(self.tour.order[at]);
            self.mark(self.at(at + 1));
        }
        true
    }

    /// Or-opt: carries the CPUs from this one on, reversed, to between two others.
    fn carry(&mut self, a: usize) -> bool {
        let (cost, near, side) = (self.cost, self.near, self.cost.side);
        for count in 1..=CARRIED {
            let first = self.tour.position[a];
            let last = first + count - 1;
            if first == 0 || last + 1 >= side {
                continue;
            }
            let (before, end, behind) = (self.tour.order[first - 1], self.tour.order[last], self.tour.order[last + 1]);
            let saved = cost.of(before, a) + cost.of(end, behind) - cost.of(before, behind) - self.turning(first, last);
            for index in 0..2 * near {
                self.work += 1;
                // Between c and c': a before c' (one of those near it), or the end behind c.
                let (c, c2) = if index < near {
                    let c2 = self.near_from[a * near + index];
                    (self.previous(c2), c2)
                } else {
                    let c = self.near_to[end * near + index - near];
                    (c, self.next(c))
                };
                let to = self.tour.position[c];
                if (first - 1..=last).contains(&to) {
                    continue;
                }
                if cost.of(c, end) + cost.of(a, c2) - cost.of(c, c2) >= saved {
                    continue;
                }
                self.tour.length += cost.of(c, end) + cost.of(a, c2) - cost.of(c, c2) - saved;
                if to > last {
                    let stretch = &mut self.tour.order[first..=to];
                    stretch.rotate_left(count);
                    let length = stretch.len();
                    stretch[length - count..].reverse();
                    self.renumber(first, to);
                } else {
                    let stretch = &mut self.tour.order[to + 1..=last];
                    stretch.rotate_right(count);
                    stretch[..count].reverse();
                    self.renumber(to + 1, last);
                }
                [a, end, before, behind, c, c2].into_iter().for_each(|cpu| self.mark(cpu));
                return true;
            }
        }
        false
    }
}

/// The tour that takes the shortest link that is still possible, again and again.
fn greedy(cost: &Cost) -> Tour {
    let side = cost.side;
    let mut links: Vec<usize> = (0..side * side).filter(|link| link / side != link % side).collect();
    links.sort_by_key(|link| cost.cells[*link]);
    let mut next = vec![None; side];
    let mut has_previous = vec![false; side];
    // The other end of the path that ends here.
    let mut other_end: Vec<usize> = (0..side).collect();
    let mut left = side - 1;
    for link in links {
        let (from, to) = (link / side, link % side);
        if left == 0 || next[from].is_some() || has_previous[to] || other_end[from] == to {
            continue;
        }
        next[from] = Some(to);
        has_previous[to] = true;
        let (start, end) = (other_end[from], other_end[to]);
        other_end[start] = end;
        other_end[end] = start;
        left -= 1;
    }
    let mut order: Vec<usize> = (0..side).find(|cpu| !has_previous[*cpu]).into_iter().collect();
    while let Some(cpu) = order.last().and_then(|cpu| next[*cpu]) {
        order.push(cpu);
    }
    let mut position = vec![0; side];
    order.iter().enumerate().for_each(|(at, cpu)| position[*cpu] = at);
    let length = (0..side).map(|at| cost.of(order[at], order[(at + 1) % side])).sum();
    Tour { order, position, length }
}

#[cfg(test)]
mod tests {
    use super::super::tests::random;
    use super::*;

    #[test]
    fn every_move_keeps_the_books() {
        for side in [13, 14, 40, 200] {
            for symmetric in [true, false] {
                let matrix = random(side, symmetric, 7);
                let cost = Cost::new(&matrix);
                let mut search = Search::new(&cost);
                search.turn_sums(0);
                (0..side).for_each(|cpu| search.mark(cpu));
                for _ in 0..2000 {
                    search.improve();
                    let tour = &search.tour;
                    let length: i64 = (0..side).map(|at| cost.of(tour.order[at], tour.order[(at + 1) % side])).sum();
                    assert_eq!(length, tour.length);
                    assert!((0..side).all(|cpu| tour.order[tour.position[cpu]] == cpu));
                    search.disturb();
                }
            }
        }
    }
}
