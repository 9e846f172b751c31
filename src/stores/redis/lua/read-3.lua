-- Reads a page of the journal, never beyond the head's seq; with the last page, what a live reader has to know besides.
-- KEYS  1 head  2 journal  3 deltas
-- ARGV  1 first seq  2 how many records at most  3 newest schema that the caller reads  4 1 for a live reader
-- Gives {OK, seq of the head, 1 if the turn has ended, entries} and for a live reader whose page reaches the head also
--       [last id of the journal, entry that opened the model call or false, deltas of that call, last id of the deltas]
--       | {NOT_FOUND} | {SCHEMA, schema} | {TORN, seq of the head, seq of the journal}
local head = redis.call('HMGET', KEYS[1], 'seq', 'schema', 'ended', 'open')
if not head[1] then return { NOT_FOUND } end
if tonumber(head[2]) > tonumber(ARGV[3]) then return { SCHEMA, tonumber(head[2]) } end
local seq, from = tonumber(head[1]), tonumber(ARGV[1])
local last = redis.call('XREVRANGE', KEYS[2], '+', '-', 'COUNT', 1)[1]
if redis.call('XLEN', KEYS[2]) ~= seq or not last or string.match(last[1], '^%d+') ~= head[1] then
  return { TORN, seq, lastSeq(KEYS[2]) }
end
local entries = {}
if from <= seq then entries = redis.call('XRANGE', KEYS[2], ARGV[1], '+', 'COUNT', ARGV[2]) end
local answer = { OK, seq, tonumber(head[3]), entries }
if ARGV[4] ~= '1' or from + #entries <= seq then return answer end

answer[5], answer[6], answer[7] = last[1], false, {}
if head[4] ~= '0' then
  answer[6] = redis.call('XRANGE', KEYS[2], head[4], head[4])[1] or false
  answer[7] = redis.call('XRANGE', KEYS[3], head[4] .. '-0', '+')
end
local delta = redis.call('XREVRANGE', KEYS[3], '+', '-', 'COUNT', 1)[1]
answer[8] = delta and delta[1] or '0-0'
return answer
