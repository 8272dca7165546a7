//! Items that all threads of a tenant share.

use std::time::Duration;

use serde_json::{Map, Value};

use super::{RamState, RamTenant, add_duration};
use crate::id::TenantId;
use crate::store::{
    ItemKey, ItemNamespace, ItemSearch, MAX_ITEMS_PER_TENANT, Millis, NamespaceSearch, SharedItem,
    StoreError, item_to_stored, too_many_items,
};

pub(super) struct RamItem {
    item: SharedItem,
    expires: Option<Millis>,
}

impl RamItem {
    fn is_alive(&self, now: Millis) -> bool {
        self.expires.is_none_or(|expires| now < expires)
    }
}

impl RamState {
    pub(in super::super) fn put_item(
        &mut self,
        tenant: &TenantId,
        (namespace, key): (&ItemNamespace, &ItemKey),
        value: &Map<String, Value>,
        lifetime: Option<Duration>,
        now: Millis,
    ) -> Result<SharedItem, StoreError> {
        item_to_stored(value)?;
        let home = self.tenants.entry(tenant.clone()).or_default();
        let place = (namespace.to_stored(), key.as_str().to_owned());
        let old = home.items.get(&place);
        if old.is_none() && home.items.len() as u64 >= MAX_ITEMS_PER_TENANT {
            return Err(too_many_items());
        }
        let created_at = old.filter(|old| old.is_alive(now)).map_or(now, |old| old.item.created_at);
        let item = SharedItem {
            namespace: namespace.clone(),
            key: key.clone(),
            value: value.clone(),
            created_at,
            updated_at: now,
        };
        let expires = lifetime.map(|lifetime| add_duration(now, lifetime));
        home.items.insert(place, RamItem { item: item.clone(), expires });
        Ok(item)
    }

    pub(in super::super) fn item(
        &self,
        tenant: &TenantId,
        (namespace, key): (&ItemNamespace, &ItemKey),
        now: Millis,
    ) -> Option<SharedItem> {
        let items = &self.tenants.get(tenant)?.items;
        let kept = items.get(&(namespace.to_stored(), key.as_str().to_owned()))?;
        kept.is_alive(now).then(|| kept.item.clone())
    }

    pub(in super::super) fn delete_item(
        &mut self,
        tenant: &TenantId,
        (namespace, key): (&ItemNamespace, &ItemKey),
        now: Millis,
    ) -> bool {
        let Some(home) = self.tenants.get_mut(tenant) else { return false };
        let removed = home.items.remove(&(namespace.to_stored(), key.as_str().to_owned()));
        removed.is_some_and(|removed| removed.is_alive(now))
    }

    pub(in super::super) fn search_items(
        &self,
        tenant: &TenantId,
        search: &ItemSearch,
        now: Millis,
    ) -> Vec<SharedItem> {
        let Some(home) = self.tenants.get(tenant) else { return Vec::new() };
        let (first, end) = search.prefix.stored_range();
        let within = home.items.range((first, String::new())..(end, String::new()));
        within
            .map(|(_, kept)| kept)
            .filter(|kept| kept.is_alive(now) && search.fits(&kept.item.value))
            .skip(search.offset)
            .take(search.bounded_limit())
            .map(|kept| kept.item.clone())
            .collect()
    }

    pub(in super::super) fn item_namespaces(
        &self,
        tenant: &TenantId,
        search: &NamespaceSearch,
        now: Millis,
    ) -> Result<Vec<ItemNamespace>, StoreError> {
        let Some(home) = self.tenants.get(tenant) else { return Ok(Vec::new()) };
        let (first, end) = search.prefix.stored_range();
        let within = home.items.range((first, String::new())..(end, String::new()));
        search.select(
            within.filter(|(_, kept)| kept.is_alive(now)).map(|(_, kept)| Ok(kept.item.namespace.clone())),
        )
    }
}

impl RamTenant {
    /// Returns how many there were.
    pub(super) fn remove_expired_items(&mut self, now: Millis) -> u64 {
        let before = self.items.len();
        self.items.retain(|_, kept| kept.is_alive(now));
        (before - self.items.len()) as u64
    }
}
