kara rules show shifts/low-bits
