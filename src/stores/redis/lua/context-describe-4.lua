-- What a list says of a context.
-- Gives {OK, messages, open turns, createdAt, updatedAt, bytes of the messages (below 0: not counted)} | {NOT_FOUND} | {SCHEMA, layout} | {TORN, total of the head, messages}
if redis.call('EXISTS', KEYS[1]) == 0 then return { NOT_FOUND } end
local refused = flaw()
if refused then return refused end
local head = redis.call('HMGET', KEYS[1], 'createdAt', 'updatedAt', 'bytes')
local messages = redis.call('LLEN', KEYS[2])
return { OK, messages, redis.call('ZCARD', KEYS[4]), head[1], head[2], head[3] or (messages == 0 and 0 or -1) }
