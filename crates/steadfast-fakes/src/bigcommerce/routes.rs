//! Which resources a store has, what may be done with each, and by which parameters its list is asked for.
//!
//! The facts are those of BigCommerce's public specification (github.com/bigcommerce/docs, `reference/`, of 2026-04; the
//! catalog of V2 by `archive/store-operations/v2-catalog-products/`). A route that is not here is refused: nothing is
//! made up.

/// A collection of a store.
#[derive(Debug)]
pub(super) struct Route {
    /// `{}` is any id.
    pub(super) path: &'static str,
    /// The acts that are open on the collection as a whole: `L`ist it, `P`ost one, `U`pdate several, `D`elete several.
    methods: &'static str,
    /// The acts that are open on one of it: `G`et it, `U`pdate it, `D`elete it. Nothing: one of it has no path.
    pub(super) one: &'static str,
    /// The parameters of the list that are implemented.
    pub(super) filters: &'static [&'static str],
    /// Those that are BigCommerce's, and that the fake does not implement.
    pub(super) foreign: &'static str,
    /// The fields that the list may be sorted by.
    pub(super) sorts: &'static str,
    /// The collections below one of it that `include` shows with it.
    pub(super) includes: &'static str,
}

impl Route {
    /// A route that is no collection, and takes no parameter.
    pub(super) const OTHER: Route = Route::new("", "", &[]);

    const fn new(path: &'static str, methods: &'static str, filters: &'static [&'static str]) -> Route {
        Route { path, methods, one: "GUD", filters, foreign: "", sorts: "", includes: "" }
    }

    const fn foreign(mut self, foreign: &'static str) -> Route {
        self.foreign = foreign;
        self
    }

    const fn one(mut self, one: &'static str) -> Route {
        self.one = one;
        self
    }

    const fn sorts(mut self, sorts: &'static str) -> Route {
        self.sorts = sorts;
        self
    }

    const fn includes(mut self, includes: &'static str) -> Route {
        self.includes = includes;
        self
    }

    pub(super) fn takes(&self, method: char) -> bool {
        self.methods.contains(method)
    }

    /// Whether the list is implemented to take this parameter.
    pub(super) fn has_filter(&self, name: &str) -> bool {
        self.filters.iter().any(|names| is_in(names, name))
    }

    /// Whether BigCommerce parts the list into pages.
    pub(super) fn has_pages(&self) -> bool {
        self.filters.contains(&PAGES)
    }

    /// The parameters of `DELETE` on the collection, those that the fake implements and those that it does not.
    pub(super) fn filters_of_delete(&self) -> (&'static str, &'static str) {
        match self.path {
            "v3/catalog/products" => (
                "name sku price weight brand_id is_visible is_featured id:in inventory_level total_sold type",
                "condition date_modified date_last_imported categories keyword",
            ),
            "v3/catalog/brands" => ("name page_title", ""),
            "v3/catalog/categories" => (
                "id id:in id:not_in id:min id:max id:greater id:less name name:like parent_id parent_id:in \
                 parent_id:min parent_id:max parent_id:greater parent_id:less page_title page_title:like is_visible",
                "keyword",
            ),
            "v3/customers" | "v3/customers/addresses" | "v2/coupons" => ("id:in", ""),
            "v3/pricelists" => ("id:in name", ""),
            "v2/orders" => ("", "limit"),
            _ => ("", ""),
        }
    }
}

/// Whether a list of words has this one.
pub(super) fn is_in(words: &str, word: &str) -> bool {
    words.split_ascii_whitespace().any(|known| known == word)
}

/// The collection of this name.
pub(super) fn route_of(route: &[&str]) -> Option<&'static Route> {
    ROUTES.iter().find(|known| {
        let parts: Vec<&str> = known.path.split('/').collect();
        parts.len() == route.len()
            && parts.iter().zip(route).all(|(known, part)| known == part || *known == "{}")
    })
}

/// The collection that it is one of.
pub(super) fn parent_of(route: &[&str]) -> Option<&'static Route> {
    let (id, parent) = route.split_last()?;
    // Customers of V3 are read, changed and removed through the collection alone.
    let is_one = !id.is_empty() && *id != "count" && !matches!(parent, ["v3", "customers"]);
    route_of(parent).filter(|_| is_one)
}

const PAGES: &str = "page limit";
const ID: &str = "id id:in id:not_in id:min id:max id:greater id:less";
const DATES_V2: &str = "min_date_created max_date_created min_date_modified max_date_modified";
const DATES_V3: &str = "date_created:min date_created:max date_modified:min date_modified:max";
const FIELDS: &str = "include_fields exclude_fields";

const ROUTES: &[Route] = &[
    Route::new(
        "v2/orders",
        "LPD",
        &[
            "min_id max_id min_total max_total customer_id status_id cart_id payment_method channel_id external_order_id \
             is_deleted",
            DATES_V2,
            PAGES,
        ],
    )
    .foreign("email include consignment_structure")
    .sorts("id customer_id date_created date_modified status_id channel_id"),
    Route::new("v2/orders/{}/products", "L", &[PAGES]).one("G"),
    Route::new("v2/orders/{}/shipments", "LPD", &[PAGES]),
    Route::new("v2/orders/{}/shipping_addresses", "L", &[PAGES]).one("GU"),
    Route::new("v2/orders/{}/coupons", "L", &[PAGES]).one(""),
    Route::new(
        "v2/orders/{}/messages",
        "L",
        &["min_id max_id customer_id min_date_created max_date_created is_flagged status", PAGES],
    )
    .one(""),
    Route::new("v2/coupons", "LPD", &["id code name type exclude_type min_id max_id", PAGES]),
    Route::new(
        "v2/products",
        "LPD",
        &[
            "min_id max_id name sku is_visible availability min_price max_price min_inventory_level max_inventory_level",
            DATES_V2,
            PAGES,
        ],
    )
    .foreign(
        "keyword_filter description condition brand_id min_date_last_imported max_date_last_imported min_number_sold \
         max_number_sold is_featured include_sku category product_tax_code",
    ),
    Route::new(
        "v2/customers",
        "LPD",
        &[
            "min_id max_id email first_name last_name company phone customer_group_id",
            DATES_V2,
            PAGES,
        ],
    )
    .foreign("store_credit tax_exempt_category"),
    Route::new("v2/customers/{}/addresses", "LPD", &[PAGES]),
    Route::new("v2/customer_groups", "LPD", &["name", PAGES]).foreign(
        "name:like is_default is_group_for_guests date_created date_created:min date_created:max date_modified \
         date_modified:min date_modified:max",
    ),
    Route::new("v2/brands", "LPD", &["name min_id max_id", PAGES]),
    Route::new("v2/categories", "LPD", &["name min_id max_id", PAGES]).foreign("parent_id is_visible"),
    Route::new(
        "v2/gift_certificates",
        "LPD",
        &["min_id max_id code to_name to_email from_name from_email direction", PAGES],
    )
    .foreign("order_id")
    .sorts("id"),
    Route::new("v2/hooks", "LP", &["is_active scope destination", PAGES]),
    Route::new("v2/pages", "LP", &[PAGES]),
    Route::new("v2/redirects", "LPD", &[PAGES]),
    Route::new(
        "v3/catalog/products",
        "LPUD",
        &[
            ID,
            "name sku sku:in price weight brand_id date_modified:min date_modified:max is_visible is_featured total_sold type",
            "inventory_level inventory_level:in inventory_level:not_in inventory_level:min inventory_level:max",
            "inventory_level:greater inventory_level:less availability direction",
            PAGES,
        ],
    )
    .foreign(
        "channel_id:in include_fields exclude_fields categories categories:in mpn upc condition date_modified \
         date_last_imported date_last_imported:not date_last_imported:max date_last_imported:min is_free_shipping \
         inventory_low out_of_stock keyword keyword_context",
    )
    .sorts("id name sku price date_modified inventory_level is_visible total_sold")
    .includes("variants images custom_fields"),
    Route::new("v3/catalog/products/{}/variants", "LP", &[PAGES]).foreign(FIELDS),
    Route::new("v3/catalog/products/{}/images", "LP", &[PAGES]).foreign(FIELDS),
    Route::new("v3/catalog/products/{}/custom-fields", "LP", &[PAGES]).foreign(FIELDS),
    Route::new("v3/catalog/brands", "LPD", &[ID, "name name:like page_title direction", PAGES])
        .foreign(FIELDS)
        .sorts("name"),
    Route::new(
        "v3/catalog/categories",
        "LPD",
        &[
            ID,
            "name name:like page_title page_title:like is_visible",
            "parent_id parent_id:in parent_id:min parent_id:max parent_id:greater parent_id:less",
            PAGES,
        ],
    )
    .foreign("keyword include_fields exclude_fields")
    .sorts("name id parent_id sort_order"),
    Route::new(
        "v3/customers",
        "LPUD",
        &["id:in company:in customer_group_id:in email:in name:in phone:in", DATES_V3, PAGES],
    )
    .foreign("name:like registration_ip_address:in date_created date_modified include before after")
    .sorts("date_created date_modified last_name"),
    Route::new("v3/customers/addresses", "LPUD", &["id:in customer_id:in company:in name:in", PAGES])
        .one("")
        .foreign("include"),
    Route::new("v3/pricelists", "LPD", &["id:in name name:like", DATES_V3, PAGES])
        .foreign("date_created date_modified before after"),
    Route::new("v3/carts", "P", &[]).foreign("include"),
    Route::new("v3/carts/{}/items", "P", &[]).foreign("include").one("UD"),
    Route::new("v3/checkouts/{}/orders", "P", &[]).one(""),
    Route::new("v3/hooks", "LP", &["is_active scope destination", PAGES]),
    Route::new("v3/channels", "LP", &["type:in platform:in", PAGES]).one("GU").foreign(
        "include available status:in date_created date_created:min date_created:max date_modified date_modified:min \
         date_modified:max",
    ),
    Route::new("v3/orders/{}/payment_actions/refunds", "LP", &[]).foreign("transaction_id").one(""),
    Route::new("v3/orders/{}/payment_actions/refund_quotes", "P", &[]).one(""),
    Route::new("v3/orders/{}/transactions", "L", &[]).one(""),
    Route::new("v3/inventory/adjustments/relative", "P", &[]).one(""),
    Route::new("v3/inventory/adjustments/absolute", "U", &[]).one(""),
];
