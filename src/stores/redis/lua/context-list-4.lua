-- Reads a page of the messages by position, and the message at the position that it comes after.
-- ARGV  1 how many messages at most  2 position that the page comes after (below 0: none)  3 1: from the end to the front
-- Gives {OK, total, position of the first, messages in the order of their positions, createdAt, message at ARGV[2] or ''}
--       | {SCHEMA, layout} | {TORN, total of the head, messages}
local refused = flaw()
if refused then return refused end
local limit, position, total = tonumber(ARGV[1]), tonumber(ARGV[2]), redis.call('LLEN', KEYS[2])
local from, to
if ARGV[3] == '1' then
  to = position < 0 and total or math.min(position, total)
  from = math.max(0, to - limit)
else
  from = math.min(position + 1, total)
  to = math.min(from + limit, total)
end
local messages = {}
if to > from then messages = redis.call('LRANGE', KEYS[2], from, to - 1) end
local before = position >= 0 and position < total and redis.call('LINDEX', KEYS[2], position) or ''
return { OK, total, from, messages, redis.call('HGET', KEYS[1], 'createdAt') or '0', before }
