"""Named entities: the score does not depend on the scheme of the tags inside the model."""

from elmore.tasks.tagging.model import TaggedTokens
from elmore.tasks.tagging.ner import NER


def test_token_accuracy_is_that_of_bio_tags():
    # conlleval counts two of three BIO tags as equal: B-PER, I-PER and O against B-PER, I-PER and I-PER.
    found = NER.metric.score([TaggedTokens(["a", "b", "c"], ["B-PER", "L-PER", "O"])], [["B-PER", "I-PER", "L-PER"]])
    assert round(found.parts["accuracy"], 2) == 66.67
    assert found.value == 0
