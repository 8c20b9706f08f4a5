#include "answer.h"

#include <ctype.h>
#include <string.h>

#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-"

/* The value of `name: value`, without the blanks around it. False: another name, or a value that does not fit. */
static bool value_of(const char *line, size_t n, const char *name, char *to, size_t cap)
{
  size_t len = strlen(name);
  if (n <= len || strncasecmp(line, name, len) != 0 || line[len] != ':')
    return false;
  const char *from = line + len + 1, *end = line + n;
  while (from < end && (*from == ' ' || *from == '\t'))
    from++;
  while (end > from && (end[-1] == '\r' || end[-1] == '\n' || end[-1] == ' '))
    end--;
  if ((size_t)(end - from) >= cap || memchr(from, '\0', (size_t)(end - from)) != NULL)
    return false;
  memcpy(to, from, (size_t)(end - from));
  to[end - from] = '\0';
  return true;
}

void answer_line(struct answer_head *a, const char *line, size_t n)
{
  char text[80] = "";
  if (n > 5 && strncasecmp(line, "HTTP/", 5) == 0)
    *a = (struct answer_head){0};
  else if (value_of(line, n, "content-range", text, sizeof text))
    a->has_range = origin_content_range(text, &a->range);
  else if (value_of(line, n, "content-encoding", a->encoding, sizeof a->encoding))
    a->encoding[strcasecmp(a->encoding, "identity") == 0 ? 0 : strspn(a->encoding, LETTERS)] = '\0';
  else if (!value_of(line, n, "www-authenticate", a->challenge, sizeof a->challenge) &&
           value_of(line, n, "etag", a->etag, sizeof a->etag) && !origin_printable(a->etag))
    a->etag[0] = '\0'; /* it is told in JSON, and becomes a line of a request's head */
}

/* NAME="VALUE" or NAME=VALUE at *p, which moves behind it. */
static bool parameter(const char **p, char name[16], char value[ANSWER_PART_MAX])
{
  size_t n = 0;
  for (; isalnum((unsigned char)**p) || **p == '_' || **p == '-'; (*p)++) {
    if (n >= 15)
      return false;
    name[n++] = (char)tolower((unsigned char)**p);
  }
  name[n] = '\0';
  if (n == 0 || *(*p)++ != '=')
    return false;
  bool quoted = **p == '"';
  *p += quoted;
  for (n = 0; quoted ? **p != '"' : **p != ',' && **p != ' ' && **p != '\0'; (*p)++) {
    *p += quoted && **p == '\\';
    if ((unsigned char)**p < ' ' || (unsigned char)**p > '~' || n >= ANSWER_PART_MAX - 1)
      return false;
    value[n++] = **p;
  }
  value[n] = '\0';
  *p += quoted;
  return true;
}

bool answer_challenge(const char *value, struct challenge *to)
{
  *to = (struct challenge){0};
  if (strncasecmp(value, "bearer ", 7) != 0)
    return false;
  for (const char *p = value + 7; *p != '\0';) {
    char name[16], text[ANSWER_PART_MAX];
    p += strspn(p, ", \t");
    if (*p == '\0')
      break;
    if (!parameter(&p, name, text))
      return false;
    char *part = strcmp(name, "realm") == 0     ? to->realm
                 : strcmp(name, "service") == 0 ? to->service
                 : strcmp(name, "scope") == 0   ? to->scope
                                                : NULL;
    if (part != NULL)
      memcpy(part, text, strlen(text) + 1);
  }
  return to->realm[0] != '\0';
}

void answer_keep(struct answer_body *b, const char *p, size_t n)
{
  size_t room = sizeof b->text - b->n;
  n = n < room ? n : room;
  memcpy(b->text + b->n, p, n);
  b->n += n;
}

static bool name_after(const struct answer_body *b, const char *mark, char end, char to[ANSWER_REASON_MAX])
{
  const char *at = memmem(b->text, b->n, mark, strlen(mark)), *stop = b->text + b->n;
  if (at == NULL)
    return false;
  size_t n = 0;
  for (at += strlen(mark); at < stop && n < ANSWER_REASON_MAX - 1 && (isalnum((unsigned char)*at) || *at == '_'); at++)
    to[n++] = *at;
  to[n] = '\0';
  return n > 0 && at < stop && *at == end;
}

bool answer_reason(const struct answer_body *b, char to[ANSWER_REASON_MAX])
{
  return name_after(b, "<Code>", '<', to) || name_after(b, "\"code\":\"", '"', to);
}
