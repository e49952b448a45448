#[derive(Debug)]
pub struct BigCommerce;
