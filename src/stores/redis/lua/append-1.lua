-- Appends records, all or none, and renews the lease and the time to live. What its owner sends again is not written twice, alone or
-- with new records after it.
-- KEYS  1 head  [2 index of runnable tasks]
-- ARGV  1 owner  2 status of the task after these records
--       3 numbers, parted by blanks: epoch, length of the lease in ms, seconds to live (below 0: none), first seq,
--         number of records, seq of the model call that is open after them (0: none, below 0: as before),
--         1 if the last one is terminal, at of the last one in ms (0: as before),
--         time of the status in ms (0: as before), until when the turn backs off in ms (0: it does not, below 0: as before)
--       4… two for each record: JSON, and its digest where it goes to the blobs, else ''
-- Gives {OK} | {NOT_FOUND} | {FENCED} | {TERMINAL} | {REWOUND, seq of the head} | {TORN, seq of the head, seq of the journal}
local numbers = {}
for number in string.gmatch(ARGV[3], '%S+') do numbers[#numbers + 1] = tonumber(number) end
local epoch, leaseMs, seconds, first, count, open, ended, at, statusAt, later = unpack(numbers)

local journal = keyOf('j')
local head = redis.call('HMGET', KEYS[1], 'seq', 'epoch', 'owner', 'granted', 'ended', 'status', 'bytes')
if not head[1] then return { NOT_FOUND } end
if head[3] ~= ARGV[1] or tonumber(head[2]) ~= epoch then return { FENCED } end
local seq = tonumber(head[1])
local expiresAt = now() + leaseMs
local expires = whole(expiresAt)
local mine = count > 0 and first > tonumber(head[4]) and first <= seq + 1
local applied = mine and math.min(count, seq + 1 - first) or 0
local appliedBefore = count > 0 and applied == count
if head[5] == '1' and not appliedBefore then return { TERMINAL } end
if appliedBefore or count == 0 then
  -- Write all the same: a WAIT after it then covers the records, also on a new connection.
  redis.call('HSET', KEYS[1], 'expires', expires)
  return { OK }
end
if not mine then return { REWOUND, seq } end
if redis.call('XLEN', journal) ~= seq then return { TORN, seq, lastSeq(journal) } end

local bytes = tonumber(head[7])
for number = applied + 1, count do
  seq = seq + 1
  if bytes then bytes = bytes + #ARGV[2 + number * 2] end
  write(journal, seq, epoch, ARGV[2 + number * 2], ARGV[3 + number * 2])
end
local fields = { 'seq', whole(seq), 'status', ARGV[2], 'expires', expires, 'ended', whole(ended) }
-- Heads of older versions do not count.
if bytes then
  fields[#fields + 1] = 'bytes'
  fields[#fields + 1] = whole(bytes)
end
if open >= 0 then
  fields[#fields + 1] = 'open'
  fields[#fields + 1] = whole(open)
end
if at > 0 then
  fields[#fields + 1] = 'updatedAt'
  fields[#fields + 1] = whole(at)
end
if statusAt > 0 then
  fields[#fields + 1] = 'statusAt'
  fields[#fields + 1] = whole(statusAt)
end
if later >= 0 then
  fields[#fields + 1] = 'due'
  fields[#fields + 1] = whole(later)
end
redis.call('HSET', KEYS[1], unpack(fields))
listed(head[6], ARGV[2])
if ended == 1 or not RUNNABLE[ARGV[2]] then
  due(nil)
elseif not RUNNABLE[head[6]] then
  due(expiresAt)
end
-- Deltas of earlier model calls are in the records by now.
if open > 0 then redis.call('XTRIM', keyOf('d'), 'MINID', whole(open) .. '-0') end
keepWhenDue(seconds)
-- The records hold the whole answer; current readers of the deltas have a minute left.
if ended == 1 then redis.call('EXPIRE', keyOf('d'), 60, 'LT') end
return { OK }
