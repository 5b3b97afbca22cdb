//! Attacks on cursors of views. Each attack is tried on at least one kind of view, and each kind of
//! view gets at least one attack.

use recto::Recto;

use super::support::{kind, viewed};
use super::{foreign, forged};
use crate::common::subject::{BUCKETS, FULL, NARROW, NULLS, VIEWS};

pub(crate) async fn every_flipped_bit_is_refused(recto: Recto) {
    forged::every_flipped_bit_is_refused(viewed(kind(&recto), NULLS).await).await;
}

pub(crate) async fn every_truncation_and_extension_is_refused(recto: Recto) {
    forged::every_truncation_and_extension_is_refused(viewed(kind(&recto), BUCKETS).await).await;
}

pub(crate) async fn two_cursors_do_not_make_a_third(recto: Recto) {
    forged::two_cursors_do_not_make_a_third(viewed(kind(&recto), FULL).await).await;
}

pub(crate) async fn rejects_malformed_cursors(recto: Recto) {
    forged::rejects_malformed_cursors(viewed(kind(&recto), NARROW).await).await;
}

pub(crate) async fn those_of_others_are_refused(recto: Recto) {
    for view in VIEWS {
        let recto = viewed(kind(&recto), view).await;
        foreign::another_query_of_the_collection_is_refused(recto.clone()).await;
        foreign::another_collection_is_refused(recto).await;
    }
    // Recto reads nothing in a cursor that it cannot decrypt, so the kind of view makes no
    // difference.
    foreign::another_sealing_key_is_refused(viewed(kind(&recto), VIEWS[0]).await).await;
}
