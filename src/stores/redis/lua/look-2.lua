-- Tells a live reader whether the journal still holds what it has shown.
-- KEYS  1 head  2 journal
-- ARGV  1 id of the last entry that it has shown
-- Gives {OK} | {NOT_FOUND} | {REWOUND, seq of the head}
local seq = redis.call('HGET', KEYS[1], 'seq')
if not seq then return { NOT_FOUND } end
if #redis.call('XRANGE', KEYS[2], ARGV[1], ARGV[1]) == 0 then return { REWOUND, tonumber(seq) } end
return { OK }
