#[derive(Debug)]
pub struct Keyed;
#[derive(Debug)]
pub struct KeyForm;
#[derive(Debug)]
pub struct KeyPlace;
#[derive(Debug)]
pub struct Marker;
