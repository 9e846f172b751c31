-- Takes the lease where nobody holds it or it ran out. The same call sent twice answers as the first time.
-- KEYS  1 head  2 journal  [3 index of runnable tasks]
-- ARGV  1 owner  2 length of the lease, ms  3 nonce of this call  4 step of the epoch  5 newest schema that the caller reads
--       6 the parent turn whose lease the caller has ('' for none)  7 the epoch of that lease
-- Gives {OK, epoch, seq, contextId, createdAt, the parent turn or '', when the owner before prolonged a lease that it never gave back or ''} | {NOT_FOUND} | {SCHEMA, schema} | {TERMINAL}
--       | {FENCED, epoch of the parent's lease that it was taken under} | {BUSY, ms that the lease lasts}
--       | {TORN, seq of the head, seq of the journal}
local head = redis.call('HMGET', KEYS[1], 'seq', 'epoch', 'owner', 'expires', 'nonce', 'ended', 'schema', 'contextId',
  'createdAt', 'parent', 'underTask', 'underEpoch', 'lease', 'status',
  'left', 'due')
if not head[1] then return { NOT_FOUND } end
if tonumber(head[7]) > tonumber(ARGV[5]) then return { SCHEMA, tonumber(head[7]) } end
local seq = tonumber(head[1])
if head[5] == ARGV[3] and head[3] == ARGV[1] then return { OK, head[2], seq, head[8], head[9], head[10] or '', head[15] or '' } end
if head[6] == '1' then return { TERMINAL } end
local time = now()
local remaining = tonumber(head[4]) - time
local newer = false
if ARGV[6] ~= '' and head[11] == ARGV[6] then
  local mine, before = tonumber(ARGV[7]), tonumber(head[12])
  if mine < before then return { FENCED, head[12] } end
  newer = mine > before
end
if not newer and head[3] ~= '' and remaining > 0 then
  -- A lease that ends later than its length allows was granted by a server whose clock was ahead, before a failover.
  local length = tonumber(head[13])
  if length and remaining > length then
    remaining = length
    redis.call('HSET', KEYS[1], 'expires', whole(time + length))
  end
  return { BUSY, remaining }
end
if redis.call('XLEN', KEYS[2]) ~= seq or lastSeq(KEYS[2]) ~= seq then return { TORN, seq, lastSeq(KEYS[2]) } end

local left = head[15] or ''
if head[3] ~= '' then left = whole(tonumber(head[4]) - tonumber(head[13] or 0)) end
local epoch = whole(tonumber(head[2]) + tonumber(ARGV[4]))
redis.call('HSET', KEYS[1], 'owner', ARGV[1], 'epoch', epoch, 'granted', seq, 'expires', whole(time + ARGV[2]),
  'lease', ARGV[2], 'nonce', ARGV[3], 'open', 0, 'batch', 0, 'left', left)
taken(head[16])
if RUNNABLE[head[14]] then due(time + ARGV[2]) end
-- Stays when the lease is released: an older owner of the parent turn is refused then too.
if ARGV[6] ~= '' then redis.call('HSET', KEYS[1], 'underTask', ARGV[6], 'underEpoch', ARGV[7]) end
-- What the former owner streamed is void; the stream keeps its last id, so that no reader sees an id twice.
redis.call('XTRIM', keyOf('d'), 'MAXLEN', 0)
return { OK, epoch, seq, head[8], head[9], head[10] or '', left }
