use crate::operation::record::*;
#[derive(Debug, Default)]
pub struct Memory(parking_lot::Mutex<std::collections::HashMap<crate::operation::OperationId, Record>>);
impl Memory {
    pub fn new() -> Memory {
        Memory::default()
    }
}
#[async_trait::async_trait]
impl super::Store for Memory {
    async fn claim(&self, c: Claim) -> Result<Claimed, super::StoreError> {
        let mut m = self.0.lock();
        let id = c.id.clone();
        let (w, r) = claim(m.get(&id), c);
        if let Some(w) = w {
            m.insert(id, w);
        }
        Ok(r)
    }
    async fn transition(
        &self,
        id: &crate::operation::OperationId,
        t: Transition,
    ) -> Result<Result<Record, Declined>, super::StoreError> {
        let mut m = self.0.lock();
        let Some(r) = m.get(id) else { return Ok(Err(Declined::Absent)) };
        match r.apply(t) {
            Ok(r) => {
                m.insert(id.clone(), r.clone());
                Ok(Ok(r))
            }
            Err(d) => Ok(Err(d)),
        }
    }
    async fn get(&self, id: &crate::operation::OperationId) -> Result<Option<Record>, super::StoreError> {
        Ok(self.0.lock().get(id).cloned())
    }
    async fn purge(&self, _: crate::clock::Timestamp, _: usize) -> Result<usize, super::StoreError> {
        Ok(0)
    }
}
