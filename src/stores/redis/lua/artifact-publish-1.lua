-- Makes a version, where the artifact is as the caller found it.
-- ARGV  1 seconds to live (below 0: none)  2 stamp that it was found with ('' where there was none)  3 stamp of this call  4 version
--       5 what is known of it, as JSON  6 id of its content  7 how many chunks that has
-- Gives {OK} | {CHANGED} | {GONE} where chunks are not here any more | {SCHEMA, layout}
local refused = flaw()
if refused then return refused end
local stamp = redis.call('HGET', KEYS[1], 'stamp') or ''
-- A call that arrives twice has made it before, whatever others have made since.
if redis.call('HGET', KEYS[1], 's' .. ARGV[4]) == ARGV[3] then return { OK } end
if stamp ~= ARGV[2] then return { CHANGED } end
if redis.call('HLEN', contentKey(ARGV[6])) ~= tonumber(ARGV[7]) then return { GONE } end
local version = ARGV[4]
redis.call('HSETNX', KEYS[1], 'first', version)
redis.call('HSET', KEYS[1], 'layout', LAYOUT, 'stamp', ARGV[3], 'newest', version, 'v' .. version, ARGV[5], 'c' .. version, ARGV[6], 's' .. version, ARGV[3])
local first, newest = range()
local keys = { KEYS[1] }
for number = first, newest do keys[#keys + 1] = contentKey(contentOf(number)) end
for _, key in ipairs(keys) do
  if tonumber(ARGV[1]) < 0 then redis.call('PERSIST', key) else redis.call('EXPIRE', key, ARGV[1]) end
end
return { OK }
