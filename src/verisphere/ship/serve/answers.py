"""What the service answers, field by field, as its OpenAPI description says it."""

from typing import Literal

from pydantic import BaseModel, Field

Verdict = Literal["same", "unsure", "different", "found", "nobody", "enrolled", "known", "refused", "removed"]
_PROMISE = "We are 95 % confident that at most 1 in 100 strangers are found in this gallery of 40 people; ..."


class Refusal(BaseModel):
    """The one form of every error: a word for programs, and a sentence for people."""

    error: dict[Literal["code", "message"], str] = Field(examples=[{"code": "no_face", "message": "no face was found"}])


class Near(BaseModel):
    """A person of the gallery, and the best score of their photographs."""

    person: str = Field(examples=["Ann"])
    score: float = Field(examples=[0.6812])
    passes: bool


class Decision(BaseModel):
    """A verdict, and what it rests on. Something passes iff its score is above the threshold."""

    verdict: Verdict = Field(examples=["same"])
    score: float | None = Field(description="the highest score, a cosine; null where nobody may be named")
    threshold: float = Field(examples=[0.1935])
    unsure_from: float | None = Field(default=None, description="the lowest unsure score, where an FRR is promised too")
    people: list[Near] = Field(
        default=[], description="the five best who pass; for keys that may enrol the five nearest"
    )
    promise: str = Field(description="what is promised about strangers", examples=[_PROMISE])
    misses: str = Field(description="how often enrolled people, or pairs of one person, are missed, in exact wording")
    notes: list[str] = Field(description="what weakens the promise, and what was seen on the photographs")


class Change(BaseModel):
    """What became of a photograph that was to be enrolled, or of a person who was to be removed."""

    verdict: Verdict = Field(examples=["enrolled"], description="known: the person had this photograph before")
    reasons: list[str] = Field(default=[], description="why it was refused")
    photographs: int = Field(default=0, description="photographs that were enrolled or removed")
    promise: str = Field(default="", description="the promise after an enrolment", examples=[_PROMISE])


class Card(BaseModel):
    """What is decided by, for whom, and what this key may do."""

    model: str
    model_card: str = Field(description="Markdown")
    people: int
    gallery: str = Field(description="threshold and promise of the gallery")
    pair: str = Field(description="threshold and promise for two photographs; empty where the model ships none")
    role: str = Field(description="read, enrol or admin")
    limits: dict[str, float]
