#[derive(Debug)]
pub struct Http;
#[derive(Debug)]
pub struct HttpBuilder;
