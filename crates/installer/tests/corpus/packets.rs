//! Random packets, always the same ones.

/// Random packets, some of which look like something.
pub struct Packets(u64);

impl Packets {
    /// From the beginning.
    pub fn new() -> Packets {
        Packets(0x0123_4567_89ab_cdef)
    }

    fn number(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// The next one.
    pub fn packet(&mut self) -> Vec<u8> {
        let length = match self.number() % 4 {
            0 => 14 + self.number() % 50,
            1 => 14 + self.number() % 400,
            _ => 60 + self.number() % 100,
        };
        let kind = self.number() % 5;
        let mut packet: Vec<u8> = (0..length)
            .map(|_| match kind {
                0 => self.number() as u8,
                1 => (self.number() % 8) as u8,
                2 => b"0123456789 getset\r\n{}[]\""[self.number() as usize % 24],
                3 => (self.number() % 64 + 60) as u8,
                _ => self.number() as u8 & self.number() as u8,
            })
            .collect();
        if self.number().is_multiple_of(2) {
            packet[12..14].copy_from_slice(&[8, 0]);
            if let Some(ip) = packet.get_mut(14..34) {
                ip[0] = 0x45;
                ip[9] = if ip[1] % 2 == 0 { 6 } else { 17 };
            }
        }
        packet
    }
}
