-- Stands in front of every script of the artifact store. KEYS[1] is the head of an artifact, from which its other keys are derived:
--   head      {prefix}:{<artifactId>}:ah            hash: layout, stamp of the last change, first and newest version; by version
--                                                   v<n>: what is known of it, as JSON; c<n>: the id of its content; s<n>: the stamp
--                                                   of the call that made it
--   contents  {prefix}:{<artifactId>}:ac:<content>  hash by number from 0: the chunks; a draft until a version names it
-- Codes of the answers, first in each:
local OK, NOT_FOUND, SCHEMA, CHANGED, GONE = 0, -1, -6, -8, -9
local LAYOUT = 1

local function contentKey(content)
  return KEYS[1]:sub(1, -2) .. 'c:' .. content
end

-- An answer that refuses the artifact as it stands; nil where it can be used.
local function flaw()
  local layout = tonumber(redis.call('HGET', KEYS[1], 'layout') or 0)
  if layout > LAYOUT then return { SCHEMA, layout } end
end

-- The numbers of the oldest and the newest version; 1 and 0 where there is none.
local function range()
  local head = redis.call('HMGET', KEYS[1], 'first', 'newest')
  return tonumber(head[1] or 1), tonumber(head[2] or 0)
end

local function contentOf(version)
  return redis.call('HGET', KEYS[1], 'c' .. version)
end
