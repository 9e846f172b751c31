-- Gives a version.
-- ARGV  1 its number, '' for the newest
-- Gives {OK, stamp of the last change, what is known of it as JSON, id of its content} | {NOT_FOUND} | {SCHEMA, layout}
local refused = flaw()
if refused then return refused end
local version = ARGV[1]
if version == '' then version = redis.call('HGET', KEYS[1], 'newest') or '' end
local found = redis.call('HMGET', KEYS[1], 'stamp', 'v' .. version, 'c' .. version)
if not found[2] then return { NOT_FOUND } end
return { OK, found[1], found[2], found[3] }
