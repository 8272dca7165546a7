"""A node of an agent, in Python."""

from fastapi import FastAPI, Header
from pydantic import BaseModel

app = FastAPI()
answers: dict[str, "Score"] = {}


class Turn(BaseModel):
    question: str


class Score(BaseModel):
    customer: str
    score: int


@app.post("/score")
def score(turn: Turn, idempotency_key: str = Header()) -> Score:
    if idempotency_key not in answers:
        customer = turn.question.rstrip("?").split()[-1]
        answers[idempotency_key] = Score(customer=customer, score=sum(customer.encode()) % 100)
    return answers[idempotency_key]
