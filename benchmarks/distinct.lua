-- For wrk: each request has another account's token and another target, so that no proxy can know it from before.
local accounts, turn, requests = 50000, 0, {}

function init()
    for account = 1, accounts do
        wrk.headers["Authorization"] = string.format("Bearer syt_YWxpY2U_yBdUSiiJVBrXNUKDlrrS%022d", account)
        requests[account] = wrk.format("GET", string.format("/_matrix/client/v3/profile/%%40u%05d%%3Aexample.org", account))
    end
end

function request()
    turn = turn % accounts + 1
    return requests[turn]
end
