if not owner then
  -- It can only have ended between two commands of this script, on a server that lets it.
  return redis.error_reply('AGAIN the lock has just ended')
end
if owner ~= ARGV[1] or ARGV[4] == 'refuse' then
  return {'held', owner, record, left}
end
if not record then
  -- A client of the plain convention has set it for this very owner: it becomes a lease.
  local problem
  record, problem = number_it()
  if problem then return problem end
end
prolong(tonumber(ARGV[2]))
return {'granted', owner, record, left}
