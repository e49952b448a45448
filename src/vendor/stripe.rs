#[derive(Debug)]
pub struct Stripe;
