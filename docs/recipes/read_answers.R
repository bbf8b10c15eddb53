# Rscript read_answers.R ANSWERS.csv DOSSIER: base R, no packages.
given   <- commandArgs(trailingOnly = TRUE)
answers <- read.csv(given[1], encoding = "UTF-8")
ages    <- subset(answers, query == answers$query[1])
ages$is_sure <- ages$answer > 2 * ages$stderr
print(ages[, c("label", "answer", "lower_95", "upper_95", "is_sure")], row.names = FALSE)
sdmx    <- read.csv(file.path(given[2], "answers-sdmx.csv"), encoding = "UTF-8")
stopifnot(all.equal(sdmx$OBS_VALUE, answers$answer[seq_len(nrow(sdmx))]))
claims  <- readLines(file.path(given[2], "claims.md"), encoding = "UTF-8")
cat(claims[1], "-", nrow(answers), "answers\n")
