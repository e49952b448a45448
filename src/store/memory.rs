#[derive(Debug)]
pub struct Memory;
