-- Reads a page of the messages, and what is known of the context.
-- ARGV  1 how many messages at most (below 0: all)  2 position in front of which they stand (below 0: the end)
-- Gives {OK, total, position of the first, messages, metadata as JSON, its version, task ids of open turns,
--        the agent that answers next or ''}
--       | {SCHEMA, layout} | {TORN, total of the head, messages}
local refused = flaw()
if refused then return refused end
local limit, to, total = tonumber(ARGV[1]), tonumber(ARGV[2]), redis.call('LLEN', KEYS[2])
if to < 0 or to > total then to = total end
local from = limit < 0 and 0 or math.max(0, to - limit)
local messages = {}
if to > from then messages = redis.call('LRANGE', KEYS[2], from, to - 1) end
local head = redis.call('HMGET', KEYS[1], 'metadata', 'version', 'agentId')
local open = redis.call('ZRANGE', KEYS[4], 0, -1)
return { OK, total, from, messages, head[1] or '{}', tonumber(head[2] or 0), open, head[3] or '' }
