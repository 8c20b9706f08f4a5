"""What may go wrong with a request, as /openapi.json describes it."""

from __future__ import annotations

from typing import Any

Responses = dict[int | str, dict[str, Any]]
"""As FastAPI takes them: parts of an OpenAPI description, by status."""

PROBLEM_SCHEMA = {
    "type": "object",
    "required": ["status", "code", "detail", "what", "remedy"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "code": {"type": "string", "description": "for machines, such as unknown_host"},
        "detail": {"type": "string", "description": "what went wrong"},
        "what": {"type": "string", "description": "the thing at fault: a host, a field, a group"},
        "remedy": {"type": "string", "description": "what helps"},
        "fields": {
            "type": "array",
            "items": {"type": "object", "properties": {"field": {"type": "string"}, "message": {"type": "string"}}},
        },
    },
}


def problems(*statuses: int) -> Responses:
    texts = {
        401: "No token, or one that is not known",
        403: "The token's role does not reach so far",
        404: "Not there",
        409: "Cannot be done now",
        408: "The body did not come",
        413: "The body is too large",
        415: "The body is not said to be JSON",
        422: "The request is not valid; `fields` names the culprits",
        429: "Too many requests, groups or streams",
        502: "The fabric manager answers what is not understood",
        503: "The fabric manager does not answer",
    }
    statuses = (*statuses, *(502 for status in statuses if status == 503), 401, 403, 408, 413, 415, 429)
    return {
        status: {"description": texts[status], "content": {"application/problem+json": {"schema": PROBLEM_SCHEMA}}}
        for status in statuses
    }
