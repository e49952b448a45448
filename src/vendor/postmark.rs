#[derive(Debug)]
pub struct Postmark;
