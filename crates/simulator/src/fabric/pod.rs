//! One pod: which links are in service, how many paths each rack has.

/// A fabric's dimensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Pods.
    pub pods: u32,
    /// Racks of a pod.
    pub racks: u32,
    /// Aggregation switches of a pod.
    pub aggregations: u32,
    /// Uplinks of an aggregation switch.
    pub uplinks: u32,
}

impl Shape {
    /// Facebook's fabric as the paper takes it: 100,224 links.
    pub const PAPER: Shape = Shape { pods: 261, racks: 48, aggregations: 4, uplinks: 48 };

    /// Links of a pod.
    pub fn links_per_pod(&self) -> u32 {
        self.aggregations * (self.racks + self.uplinks)
    }

    /// Links of the fabric.
    pub fn links(&self) -> u32 {
        self.pods * self.links_per_pod()
    }

    /// Paths of a rack when all links are in service.
    pub fn paths(&self) -> u32 {
        self.aggregations * self.uplinks
    }

    /// The pod of a link and where it stands there.
    pub fn place(&self, link: LinkId) -> (usize, Place) {
        let (pod, within) = (link / self.links_per_pod(), link % self.links_per_pod());
        let lower = self.racks * self.aggregations;
        let place = match within < lower {
            true => Place::Lower { rack: within / self.aggregations, aggregation: within % self.aggregations },
            false => Place::Upper { aggregation: (within - lower) / self.uplinks },
        };
        (pod as usize, place)
    }
}

/// A link, numbered pod by pod: first rack by rack those to the aggregation switches, then switch by
/// switch the uplinks.
pub type LinkId = u32;

/// Where a link stands in its pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Between a rack and an aggregation switch.
    Lower {
        /// The rack.
        rack: u32,
        /// The aggregation switch.
        aggregation: u32,
    },
    /// Between an aggregation switch and the spine.
    Upper {
        /// The aggregation switch.
        aggregation: u32,
    },
}

/// What of a pod is in service.
#[derive(Clone, Debug)]
pub struct Pod {
    aggregations: u32,
    /// For each rack, a bit for each aggregation switch it reaches.
    reach: Vec<u8>,
    /// Uplinks in service, by aggregation switch.
    uplinks: Vec<u32>,
}

impl Pod {
    /// All links in service.
    pub fn new(shape: &Shape) -> Pod {
        let all = ((1u32 << shape.aggregations) - 1) as u8;
        Pod {
            aggregations: shape.aggregations,
            reach: vec![all; shape.racks as usize],
            uplinks: vec![shape.uplinks; shape.aggregations as usize],
        }
    }

    /// Takes a link into or out of service.
    pub fn set(&mut self, place: Place, in_service: bool) {
        match place {
            Place::Lower { rack, aggregation } => {
                let bit = 1u8 << aggregation;
                let reach = &mut self.reach[rack as usize];
                *reach = if in_service { *reach | bit } else { *reach & !bit };
            }
            Place::Upper { aggregation } => {
                let count = &mut self.uplinks[aggregation as usize];
                *count = if in_service { *count + 1 } else { *count - 1 };
            }
        }
    }

    /// What a rack reaches: a bit for each aggregation switch.
    pub fn reach(&self, rack: usize) -> u8 {
        self.reach[rack]
    }

    /// Racks.
    pub fn racks(&self) -> usize {
        self.reach.len()
    }

    /// Uplinks in service of each aggregation switch.
    pub fn uplinks(&self) -> &[u32] {
        &self.uplinks
    }

    /// Paths of the rack that has fewest.
    pub fn least_paths(&self) -> u32 {
        self.reach.iter().map(|r| paths(*r, &self.uplinks)).min().unwrap_or(0)
    }

    /// Links in service between racks and aggregation switches, and above these.
    pub fn in_service(&self) -> [u32; 2] {
        let lower = self.reach.iter().map(|r| r.count_ones()).sum();
        debug_assert!(self.aggregations <= 8, "a rack's reach is eight bits");
        [lower, self.uplinks.iter().sum()]
    }
}

/// Paths of a rack that reaches these aggregation switches with so many uplinks each.
pub fn paths(reach: u8, uplinks: &[u32]) -> u32 {
    uplinks.iter().enumerate().filter(|(a, _)| reach & (1 << a) != 0).map(|(_, n)| n).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_papers_fabric() {
        assert_eq!(Shape::PAPER.links(), 100_224);
        assert_eq!(Shape::PAPER.paths(), 192);
        assert_eq!(Shape::PAPER.place(384 + 5), (1, Place::Lower { rack: 1, aggregation: 1 }));
        assert_eq!(Shape::PAPER.place(192 + 50), (0, Place::Upper { aggregation: 1 }));
    }

    #[test]
    fn a_link_down_takes_its_paths_along() {
        let mut pod = Pod::new(&Shape::PAPER);
        pod.set(Place::Upper { aggregation: 2 }, false);
        assert_eq!(pod.least_paths(), 191);
        pod.set(Place::Lower { rack: 7, aggregation: 0 }, false);
        assert_eq!(pod.least_paths(), 143);
        assert_eq!(pod.in_service(), [191, 191]);
        pod.set(Place::Lower { rack: 7, aggregation: 0 }, true);
        assert_eq!(pod.least_paths(), 191);
    }
}
