-- Writes the first record of a new task, or answers with the one that stands.
-- KEYS  1 head  2 journal  [3 index of runnable tasks]
-- ARGV  1 nonce of this call  2 time to live, seconds (below 0: none)  3 schema  4 contextId  5 agentId  6 at, ms
--       7 the parent turn ('' for none)  8 record as JSON  9 its digest where it goes to the blobs, else ''
-- Gives {OK, 1 if this call created it, the first record as JSON} | {TORN, seq of the head, seq of the journal}
if redis.call('EXISTS', KEYS[1]) == 1 then
  local first = redis.call('XRANGE', KEYS[2], '-', '+', 'COUNT', 1)[1]
  if not first or first[1] ~= '1-0' then
    return { TORN, tonumber(redis.call('HGET', KEYS[1], 'seq')), lastSeq(KEYS[2]) }
  end
  local payload = first[2][2]
  if first[2][1] == 'b' then payload = redis.call('HGET', keyOf('b'), payload) end
  local mine = redis.call('HGET', KEYS[1], 'nonce') == ARGV[1]
  return { OK, mine and 1 or 0, payload }
end
-- A journal without a head has lost it: a new turn on top of it would pass for the old one.
if redis.call('EXISTS', KEYS[2]) == 1 then return { TORN, 0, lastSeq(KEYS[2]) } end

redis.call('DEL', keyOf('b'), keyOf('c'), keyOf('i'), keyOf('d'))
write(KEYS[2], 1, 0, ARGV[8], ARGV[9])
redis.call('HSET', KEYS[1], 'seq', 1, 'epoch', 0, 'granted', 0, 'owner', '', 'expires', 0, 'nonce', ARGV[1],
  'status', 'submitted', 'ended', 0, 'open', 0, 'batch', 0, 'schema', ARGV[3], 'contextId', ARGV[4],
  'agentId', ARGV[5], 'createdAt', ARGV[6], 'updatedAt', ARGV[6], 'statusAt', ARGV[6],
  'bytes', #ARGV[8])
if ARGV[7] ~= '' then redis.call('HSET', KEYS[1], 'parent', ARGV[7]) end
keep(tonumber(ARGV[2]))
due(now())
listed(nil, 'submitted')
return { OK, 1, ARGV[8] }
