//! Functions that call themselves and each other.

use alloc::boxed::Box;
use alloc::vec::Vec;

fn fib(n: u64) -> u64 {
    if n < 2 { n } else { fib(n - 1) + fib(n - 2) }
}

fn ack(m: u64, n: u64) -> u64 {
    match (m, n) {
        (0, n) => n + 1,
        (m, 0) => ack(m - 1, 1),
        (m, n) => ack(m - 1, ack(m, n - 1)),
    }
}

fn product(n: u64) -> u64 {
    if n == 0 { 1 } else { n.wrapping_mul(product(n - 1)) }
}

fn visit(edges: &[u8], at: usize, seen: &mut [bool; 32], order: &mut Vec<u8>) {
    if seen[at] {
        return;
    }
    seen[at] = true;
    order.push(at as u8);
    for (i, edge) in edges.iter().enumerate() {
        if i % 32 == at {
            visit(edges, *edge as usize % 32, seen, order);
        }
    }
}

enum Tree {
    Leaf,
    Node(Box<Tree>, u8, Box<Tree>),
}

impl Tree {
    fn insert(self, value: u8) -> Tree {
        match self {
            Tree::Leaf => Tree::Node(Box::new(Tree::Leaf), value, Box::new(Tree::Leaf)),
            Tree::Node(left, here, right) if value < here => Tree::Node(Box::new(left.insert(value)), here, right),
            Tree::Node(left, here, right) => Tree::Node(left, here, Box::new(right.insert(value))),
        }
    }

    fn sum(&self, depth: u64) -> u64 {
        match self {
            Tree::Leaf => depth,
            Tree::Node(left, here, right) => left.sum(depth + 1) + *here as u64 * depth + right.sum(depth + 1),
        }
    }
}

struct Parser<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Parser<'_> {
    fn next(&mut self) -> u8 {
        let byte = self.bytes.get(self.at).copied().unwrap_or(0) % 8;
        self.at += 1;
        byte
    }

    fn sum(&mut self, depth: u32) -> u64 {
        let first = self.product(depth);
        if self.next() < 3 { first.wrapping_add(self.product(depth)) } else { first }
    }

    fn product(&mut self, depth: u32) -> u64 {
        let first = self.atom(depth);
        if self.next() < 3 { first.wrapping_mul(self.atom(depth)) } else { first }
    }

    fn atom(&mut self, depth: u32) -> u64 {
        match self.next() {
            0..4 if depth < 6 => self.sum(depth + 1),
            other => other as u64 + 1,
        }
    }
}

fn permute(items: &mut [u8], from: usize, found: &mut u64) {
    if from == items.len() {
        *found = items.iter().fold(*found, |h, b| h.wrapping_mul(31).wrapping_add(*b as u64));
        return;
    }
    for i in from..items.len() {
        items.swap(from, i);
        permute(items, from + 1, found);
        items.swap(from, i);
    }
}

fn place_queens(row: usize, taken: &mut [usize; 6], blocked: u8) -> u64 {
    if row == 6 {
        return 1;
    }
    let mut solutions = 0;
    for column in 0..6 {
        let fits = (0..row).all(|r| taken[r] != column && taken[r].abs_diff(column) != row - r);
        if fits && (row != 0 || column as u8 != blocked) {
            taken[row] = column;
            solutions += place_queens(row + 1, taken, blocked);
        }
    }
    solutions
}

fn is_even(n: u32) -> bool {
    n == 0 || is_odd(n - 1)
}

fn is_odd(n: u32) -> bool {
    n != 0 && is_even(n - 1)
}

fn fill(grid: &mut [[u8; 8]; 8], x: usize, y: usize) -> u64 {
    if grid[y][x] >= 160 {
        return 0;
    }
    grid[y][x] = 255;
    let mut area = 1;
    if x > 0 {
        area += fill(grid, x - 1, y);
    }
    if x < 7 {
        area += fill(grid, x + 1, y);
    }
    if y > 0 {
        area += fill(grid, x, y - 1);
    }
    if y < 7 {
        area += fill(grid, x, y + 1);
    }
    area
}

fn hanoi_moves(n: u32, from: usize, to: usize, pegs: &mut [u64; 3]) {
    if n > 0 {
        let other = 3 - from - to;
        hanoi_moves(n - 1, from, other, pegs);
        pegs[to] = pegs[to].wrapping_mul(3).wrapping_add(n as u64 + from as u64);
        hanoi_moves(n - 1, other, to, pegs);
    }
}

fn mirrored(bytes: &[u8]) -> u64 {
    match bytes {
        [first, middle @ .., last] if first % 4 == last % 4 => 1 + mirrored(middle),
        _ => 0,
    }
}

fn common(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { common(b, a % b) }
}

fn sums(items: &[u8], left: i32) -> u64 {
    match items {
        [] => (left == 0) as u64,
        [first, rest @ ..] => sums(rest, left) + sums(rest, left - *first as i32),
    }
}

programs! {
    fn fibonacci(bytes) { fib(bytes.first().map_or(0, |b| *b as u64 % 12)) }

    fn ackermann(bytes) { ack(2, bytes.first().map_or(0, |b| *b as u64 % 6)) }

    fn factorial(bytes) { product(bytes.len() as u64) }

    fn depth_first(bytes) {
        let (mut seen, mut order) = ([false; 32], Vec::new());
        visit(bytes, 0, &mut seen, &mut order);
        order.iter().fold(0u64, |h, b| h.wrapping_mul(37) + *b as u64)
    }

    fn tree_sum(bytes) { bytes.iter().take(40).fold(Tree::Leaf, |tree, b| tree.insert(*b)).sum(0) }

    fn expression_value(bytes) { Parser { bytes, at: 0 }.sum(0) }

    fn permutations(bytes) {
        let mut items = [0; 5];
        items.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        let mut found = 0;
        permute(&mut items, 0, &mut found);
        found
    }

    fn queens(bytes) { place_queens(0, &mut [0; 6], bytes.first().map_or(0, |b| b % 8)) }

    fn mutual_even(bytes) { is_even(bytes.len() as u32 + bytes.first().map_or(0, |b| *b as u32)) as u64 }

    fn flood_fill(bytes) {
        let mut grid = [[0; 8]; 8];
        grid.as_flattened_mut().iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        fill(&mut grid, 3, 3)
    }

    fn hanoi(bytes) {
        let mut pegs = [0; 3];
        hanoi_moves(bytes.first().map_or(0, |b| *b as u32 % 7), 0, 2, &mut pegs);
        pegs[0] ^ pegs[1] << 20 ^ pegs[2] << 40
    }

    fn palindrome(bytes) { mirrored(bytes) }

    fn gcd(bytes) {
        bytes.chunks_exact(4).map(|c| common((c[0] as u64) << 8 | c[1] as u64, (c[2] as u64) << 8 | c[3] as u64)).sum()
    }

    fn subset_sums(bytes) { sums(bytes.get(..8).unwrap_or(&[]), 500) }
}
