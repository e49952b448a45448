//! A service's own code, to be copied: one handler, one transaction, one charge.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use sqlx::PgPool;
use steadfast::Client;

/// Made once, at start-up. Both are cheap to clone, and the store of `stripe` is in the database of `pool`.
#[derive(Clone)]
pub struct Shop {
    pub pool: PgPool,
    pub stripe: Client,
}

#[derive(Deserialize)]
pub struct Order {
    quantity: i64,
}

#[derive(Serialize)]
pub struct Placed {
    /// The name of the charge's operation, for logs and operators.
    charge: String,
}

pub fn router(shop: Shop) -> Router {
    Router::new().route("/orders/{number}", post(place)).with_state(shop)
}

/// The order, its charge, and the goods from stock: all three or none. Nothing here waits for Stripe. The dispatcher
/// delivers the charge once it is committed, and never what was rolled back.
async fn place(
    State(shop): State<Shop>,
    Path(number): Path<i64>,
    Json(Order { quantity }): Json<Order>,
) -> Result<(StatusCode, Json<Placed>), Problem> {
    let mut transaction = shop.pool.begin().await?;
    sqlx::query("INSERT INTO orders (number, quantity) VALUES ($1, $2)")
        .bind(number)
        .bind(quantity)
        .execute(&mut *transaction)
        .await?;

    let cents = quantity.saturating_mul(PRICE_CENTS).to_string();
    let charge = shop
        .stripe
        .post("/v1/payment_intents")
        .key(format!("order-{number}/charge"))
        .form(&[("amount", cents.as_str()), ("currency", "usd")])
        .enqueue_in(&mut transaction)
        .await?;

    sqlx::query("UPDATE stock SET left_over = left_over - $1")
        .bind(quantity)
        .execute(&mut *transaction)
        .await?;
    transaction.commit().await?;

    // Now the dispatcher need not look for it. It would, if the process died here.
    let charge = charge.committed();
    Ok((StatusCode::CREATED, Json(Placed { charge: charge.id().key.as_str().to_owned() })))
}

/// Why there is no order. The transaction is rolled back with the handler, however it ends.
pub struct Problem {
    status: StatusCode,
    text: String,
}

impl From<sqlx::Error> for Problem {
    fn from(error: sqlx::Error) -> Problem {
        let (status, text) = match error.as_database_error() {
            Some(said) if said.is_unique_violation() => {
                (StatusCode::CONFLICT, "the order is placed already".to_owned())
            }
            Some(said) if said.is_check_violation() => (StatusCode::CONFLICT, "sold out".to_owned()),
            _ => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
        };
        Problem { status, text }
    }
}

impl From<steadfast::Error> for Problem {
    fn from(error: steadfast::Error) -> Problem {
        Problem { status: StatusCode::INTERNAL_SERVER_ERROR, text: format!("{error:#}") }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        (self.status, self.text).into_response()
    }
}

/// The service's own tables. Those of steadfast are in a schema beside them.
pub const TABLES: &str = "
    CREATE TABLE orders (number bigint PRIMARY KEY, quantity bigint NOT NULL CHECK (quantity > 0));
    CREATE TABLE stock (left_over bigint NOT NULL CHECK (left_over >= 0));
    INSERT INTO stock VALUES (3);
";

const PRICE_CENTS: i64 = 1000;
